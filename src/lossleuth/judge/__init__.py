"""From evidence to a verdict: pure functions, no torch, no files."""
