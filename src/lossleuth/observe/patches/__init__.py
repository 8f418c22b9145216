"""Replacements of torch functions while a script is watched."""
