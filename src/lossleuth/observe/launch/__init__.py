"""The parent side: starting a script in a process of its own."""
