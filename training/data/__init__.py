"""Training data: splits, pairs, triples, and the folders of runs."""
