"""The sequence of a cycle; speaks to ports only."""
