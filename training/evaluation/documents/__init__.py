"""Whole documents with gold mentions: made of annotations, and linked by a pipeline."""
