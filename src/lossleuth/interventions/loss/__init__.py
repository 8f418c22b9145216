"""Changes of the loss."""
