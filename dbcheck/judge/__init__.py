"""Judges a cycle from what was stored of it; touches no server, file or clock."""
