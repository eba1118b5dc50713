"""What weighs an encoder: linking tasks, the corpora they are read from, systems, figures and reports."""
