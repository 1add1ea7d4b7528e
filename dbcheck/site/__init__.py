"""Kinds of sites: which node takes the load, is cut, and is read afterwards."""
