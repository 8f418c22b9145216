"""What probes find, as frozen dataclasses: the one language between probes, judges and reports.

A probe returns findings, the record stores them, a judge reads their attributes. No torch here:
saved runs are judged without it.
"""
