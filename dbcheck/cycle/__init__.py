"""One cycle: preflight, load, cut, recovery and verdict; speaks to ports only."""
