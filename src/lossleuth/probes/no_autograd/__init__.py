"""Probes of steps without autograd."""
