"""Readers of ontologies, tables and JSON lines."""
