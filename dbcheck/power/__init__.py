"""Power switches: one adapter per kind."""
