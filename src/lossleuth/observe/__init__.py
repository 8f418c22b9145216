"""Observing a training script without changing it."""
