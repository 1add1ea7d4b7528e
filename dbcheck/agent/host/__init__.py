"""The agent on the target's host: who it is, facts, canaries, drives, the reset.

serve.py is the program; hosts/host.py lists the order in which the others are sent.
"""
