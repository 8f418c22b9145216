"""Batches, and how often tokens and pairs of tokens occur."""
