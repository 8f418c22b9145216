"""Probes of the loss."""
