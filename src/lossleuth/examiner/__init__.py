"""Runs, trials and the verdict: everything that does, around the pure judge."""
