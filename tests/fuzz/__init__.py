"""Everything that is read from outside, under attack; `make fuzz` is the long run."""
