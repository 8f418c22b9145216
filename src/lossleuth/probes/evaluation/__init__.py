"""Probes of evaluations."""
