"""Rules that name the settings under which an ack is not durable, as data."""
