"""Reads the rows after the cut, before anything writes to the recovered server."""
