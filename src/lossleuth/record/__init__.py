"""What a run leaves behind, written so that it can always be read again."""
