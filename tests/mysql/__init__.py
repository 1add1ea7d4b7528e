"""Gets a MySQL server for the tests where the machine has none: `make mysql`."""
