"""Tables of labels: linked, checked, mapped."""
