"""Database servers: one adapter per family."""
