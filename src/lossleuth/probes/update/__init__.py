"""Probes of the update."""
