"""What every training has: settings, loop, gradients, checkpoints, objectives."""
