"""Figures and case studies of vectors."""
