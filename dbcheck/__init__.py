"""A durability checker for MySQL/InnoDB and PostgreSQL."""

__version__ = "1.0.0"
