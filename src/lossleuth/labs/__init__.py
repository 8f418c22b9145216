"""Experiments on the tool itself: planted faults, precision, the founding cases."""
