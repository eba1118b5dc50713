"""Probes of the vectors themselves: semantic types, relations, words, languages."""
