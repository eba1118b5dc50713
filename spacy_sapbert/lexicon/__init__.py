"""What words and names mean: read in one way by linker, matcher and reranker."""
