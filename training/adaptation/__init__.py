"""The encoder of a saved pipeline learns from annotations, and another pipeline comes out."""
