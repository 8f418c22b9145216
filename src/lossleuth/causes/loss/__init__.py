"""Causes of the stage loss."""
