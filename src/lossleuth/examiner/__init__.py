"""Runs the program and the trials, and hands the evidence to the pure judge."""
