"""Changes of gradients."""
