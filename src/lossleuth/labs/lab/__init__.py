"""Healthy hosts, planted faults, and the verdicts on them."""
