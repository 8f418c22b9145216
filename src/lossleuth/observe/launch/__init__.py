"""The parent side: starting a script in its own process."""
