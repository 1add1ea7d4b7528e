"""The SSH server that leads to a lab's witness."""
