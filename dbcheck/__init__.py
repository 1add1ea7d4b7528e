"""A durability checker for MySQL/InnoDB and PostgreSQL."""

__version__ = "0.1.0"
