"""Runs the tests of PostgreSQL and MariaDB with servers of other releases."""
