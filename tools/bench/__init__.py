"""Measurements beside the field's own tools: `make bench`."""
