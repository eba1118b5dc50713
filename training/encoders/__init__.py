"""Encoders to start from, and encoder folders with their cards."""
