"""What lines of servers' logs show: a table for each product, and how lines are read.

The tables are data: what a message begins with, what it shows, and the file of the
server's source that writes it.  What no table has is not known: it is quoted, and
proves nothing.
"""
