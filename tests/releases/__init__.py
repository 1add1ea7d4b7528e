"""Runs the tests of PostgreSQL against the packages of other releases of Debian."""
