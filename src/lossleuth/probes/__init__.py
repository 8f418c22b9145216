"""Measurements on a record or a tape: each returns numbers with their noise floor."""
