"""Abbreviations that a text defines, and the component that finds them."""
