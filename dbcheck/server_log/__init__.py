"""The meaning of lines of servers' logs: their reader, and a table for each product.

The tables are data: what a message begins with, what it shows, and the file of the
server's source that writes it.  A message that no table has is not known: it
is quoted, and proves nothing.
"""

from __future__ import annotations

import enum


class Product(enum.StrEnum):
    """A product that is judged, by its name; MyRocks and Galera are MariaDB's."""

    POSTGRESQL = "PostgreSQL"
    MYSQL = "MySQL"
    MARIADB = "MariaDB"
