"""Figures of vectors and of runs, and lists of nearest names."""
