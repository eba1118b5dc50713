"""From mentions to concepts: which index row stands for which names, and which of them may be found."""
