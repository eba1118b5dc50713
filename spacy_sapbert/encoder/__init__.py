"""From a name or a mention to a vector: transformers and static encoders, their folders and architectures."""
