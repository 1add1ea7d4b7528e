"""Kinds of sites: the nodes that take the load, are cut, and are read."""
