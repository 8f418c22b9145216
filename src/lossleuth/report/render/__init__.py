"""Blocks as HTML, Markdown and text."""
