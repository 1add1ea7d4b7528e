"""The meaning of lines of servers' logs: their reader, and a table for each product.

The tables are data: what a message begins with, what it shows, and the file of the
server's source that writes it.  A message that no table has is not known: it
is quoted, and proves nothing.
"""
