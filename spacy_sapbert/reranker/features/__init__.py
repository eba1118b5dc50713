"""Features of candidates. `listing.py` names all of them; each group's file says how they are computed."""
