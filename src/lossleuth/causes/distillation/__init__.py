"""Faults between a teacher and its student."""
