"""Cycles on one target until enough cuts are counted, and what they show together."""
