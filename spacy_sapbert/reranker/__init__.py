"""The component `sapbert_reranker`: it learns from annotations which candidate is right, and how probable that is."""
