"""Probes of the gradient."""
