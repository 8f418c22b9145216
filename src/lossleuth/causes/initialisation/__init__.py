"""Causes of the stage initialisation."""
