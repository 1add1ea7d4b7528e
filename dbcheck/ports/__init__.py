"""What a cycle needs from the world, as Protocols.

A campaign speaks to these only.  One adapter per file implements them under engines/,
hosts/, witness/, power/ and lab/; cli/assemble.py alone knows which is which.
"""
