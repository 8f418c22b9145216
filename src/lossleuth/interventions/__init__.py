"""Changes of one thing in a running program: a file each, found by the catalogue."""
