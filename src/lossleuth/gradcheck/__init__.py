"""Checking a gradient against finite differences: `check_gradient` and `check_loss`."""
