"""Replay a recorded step: in float64, with other tokens, with other parameters."""
