"""BioSyn: an encoder and a sparse one, trained on their own candidates (Sung et al., ACL 2020)."""
