"""A REST service around a saved pipeline, with a page to try it and a recommender for INCEpTION."""
