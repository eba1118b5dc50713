"""CODER: an encoder trained on names and on the relations of a knowledge graph (Yuan et al., JBI 2022)."""
