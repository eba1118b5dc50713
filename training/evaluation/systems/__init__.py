"""Systems that look queries up in a dictionary: by equality, by shared characters, by vectors."""
