"""Clusters of labs: one server writes, and others follow it or are a group with it."""
