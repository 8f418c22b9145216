"""The record of a run: an append-only log that survives a crash."""
