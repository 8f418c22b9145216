"""Measures each training step and writes it to the record."""
