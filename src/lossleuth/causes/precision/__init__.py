"""Causes of the stage precision."""
