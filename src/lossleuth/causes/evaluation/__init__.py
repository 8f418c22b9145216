"""Causes: the reported number is not the true loss."""
