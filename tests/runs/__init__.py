"""Runs as older versions stored them, each with the judgement of its own version."""
