"""Distillation: a student learns from a frozen teacher, and what is measured never moves."""
