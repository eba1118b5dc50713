"""Static encoders: a table of token vectors, trained on pairs of names and on the vectors of a teacher."""
