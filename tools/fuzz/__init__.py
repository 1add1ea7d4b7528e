"""Fuzzes what reads from outside, with coverage: `python -m tools.fuzz`."""
