"""Modules that every package uses and that know nothing of databases."""
