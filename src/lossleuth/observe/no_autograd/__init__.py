"""Programs that compute their gradients by hand."""
