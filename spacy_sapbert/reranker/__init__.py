"""The component `sapbert_reranker`: it decides which candidate is right, with a probability, and can learn that."""
