"""Readings of every parameter, step by step."""
