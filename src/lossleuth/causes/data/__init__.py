"""Causes of the stage data."""
