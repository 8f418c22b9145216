"""Causes of the stage gradient."""
