"""Plain facts of one cycle: server, host, cut, witness, verdict; and its records."""
