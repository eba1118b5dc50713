"""The optional second stage of the reranker: a cross-encoder for the first candidates."""
