"""Files, settings and lines from which values came."""
