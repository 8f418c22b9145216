"""Probes of rounding and overflow."""
