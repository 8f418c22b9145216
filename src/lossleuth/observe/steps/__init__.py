"""What is seen of each training step, and how it gets into the record."""
