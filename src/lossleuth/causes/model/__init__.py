"""Causes of the stage model."""
