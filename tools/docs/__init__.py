"""Writes the documents that are made from the code, and the examples of reports."""
