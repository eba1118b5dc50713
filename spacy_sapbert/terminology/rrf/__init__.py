"""Rich Release Format, the form of UMLS: reading and writing."""
