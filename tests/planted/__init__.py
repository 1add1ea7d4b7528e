"""Faults planted for real, each with the verdict that dbcheck must give."""
