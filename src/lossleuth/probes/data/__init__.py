"""Probes of tokens and targets."""
