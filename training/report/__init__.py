"""Reports of measurements, with published figures, significance tests and an analysis of errors."""
