"""Probes of the forward pass."""
