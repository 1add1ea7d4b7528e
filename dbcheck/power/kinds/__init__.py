"""The kinds of power switches: one module each, with what all of them need beside."""
