"""Probes of teacher and student."""
