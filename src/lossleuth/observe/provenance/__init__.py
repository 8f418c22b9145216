"""Files, settings and lines that values came from."""
