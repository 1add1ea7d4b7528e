"""The kinds of power switches: one module each, with the parts that they share."""
