"""The target's host: what it is made of, and how deep a cut went."""
