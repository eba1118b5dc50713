"""CODER++: each name is contrasted with its nearest neighbours (Zeng et al., BioNLP 2022)."""
