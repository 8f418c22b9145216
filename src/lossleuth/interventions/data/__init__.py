"""Changes of batches and labels."""
