"""Tasks that look at the vectors themselves: semantic types, relations, words, languages."""
