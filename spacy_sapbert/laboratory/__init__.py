"""Laboratory tests: the parts of their names in LOINC, and the labels that laboratories give them."""
