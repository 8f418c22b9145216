"""Benchmarks, as ratios measured in one interleaved run: `python -m bench [NAME ...]`.

One file is one benchmark: a module here with a function `run(console)`, which prints its tables.
"""
