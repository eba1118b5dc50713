"""SapBERT: self-alignment pretraining of encoders on synonyms (Liu et al., NAACL 2021)."""
