"""The standing battery: one file for each subject, found by walking this folder."""
