"""Corpora of mentions: the list of those that are known, and the readers of their original files."""
