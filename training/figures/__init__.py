"""Figures and case studies: what vectors look like, beside how well they do."""
