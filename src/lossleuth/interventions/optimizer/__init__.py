"""Changes of the optimizer and its schedule."""
