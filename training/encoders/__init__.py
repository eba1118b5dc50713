"""Base encoders, and encoder folders with their cards."""
