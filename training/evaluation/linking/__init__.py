"""Entity linking: protocols, accuracy and scores."""
