"""The linker's concepts for linkers of others: spaCy's `entity_linker`, and that of spacy-llm."""
