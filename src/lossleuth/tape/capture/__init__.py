"""Recording one step as a tape of ATen operations."""
