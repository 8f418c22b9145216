"""Doing a recorded step again: in float64, with other tokens, with other parameters."""
