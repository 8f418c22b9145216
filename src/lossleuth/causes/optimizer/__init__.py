"""Causes of the stage optimizer."""
