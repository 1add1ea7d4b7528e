"""Whole cycles, each with one fault of witness or client, and an oracle apart."""
