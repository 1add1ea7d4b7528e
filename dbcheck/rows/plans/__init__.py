"""Kinds of workloads: the tables, operations and judge of each."""
