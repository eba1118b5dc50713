"""BioSyn: a dense and a sparse encoder, trained on their own candidates (Sung et al., ACL 2020)."""
