"""Measurements in texts: vital signs, laboratory values, heights and weights, and what they mean."""
