"""Protocols and the base class of all that a cycle needs from the world.

A campaign speaks to these only.  One adapter per file implements them under engines/,
hosts/, witness/, power/ and lab/; runner/assemble.py alone knows which is which.
"""
