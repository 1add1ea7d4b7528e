"""Copies of a lab's server, and the servers on which they are restored."""
