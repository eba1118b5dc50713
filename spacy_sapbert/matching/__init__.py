"""The component `terminology_matcher`: the names of a terminology, found in texts."""
