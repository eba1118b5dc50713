"""Corpora of mentions: their list, and readers of their original files."""
