"""The methods of training."""
