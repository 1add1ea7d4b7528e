"""The target's host: who it is, what it is made of, how deep a cut went, a reset."""
