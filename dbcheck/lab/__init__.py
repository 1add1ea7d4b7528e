"""A rig made of this machine: a virtual drive, real servers, a real sshd."""
