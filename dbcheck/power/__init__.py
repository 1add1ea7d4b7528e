"""Power switches, and what must be true before one cuts."""
