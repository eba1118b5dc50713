"""SapBERT: an encoder that has learned which names mean the same (Liu et al., NAACL 2021)."""
