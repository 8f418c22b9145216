"""The child side: what runs inside the process of the script."""
