"""The training engine: settings, loop, gradients, checkpoints, objectives, runs."""
