"""Evaluation: corpora, tasks, systems, the measurer and its reports."""
