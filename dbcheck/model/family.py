"""Families of servers that speak one protocol, and what the judgement knows of each.

Whoever audits, judges or shows a run asks here, and names no product.  A family's
statements are in engines/ and sql/, its rules in audit/, its messages in server_log/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """Facts that hold for every server of a family.

    name:            as engines and stored runs have it (ports.engine.Engine.family).
    port:            at which its servers listen by default.
    page_bytes:      of the pages in which tables are stored, by default.
    page_guard:      the setting by which torn pages are restored, and its values, in
                     lower case, with which they are.
    settings_source: how a user sees the settings as a session of the load has them.
    settings_grant:  what makes readable what an account may not see; "" if it sees all.
    hidden:          settings that such an account misses without a word.
    unread:          the setting that is unreadable for such an account.
    has_atomic_ddl:  CREATE, DROP, TRUNCATE and ALTER are part of a transaction.
    has_session_durability: a session can have its own commits acked early.
    has_innodb:      its tables are InnoDB's, whose log may show a shutdown like a crash
                     (innodb_fast_shutdown).
    has_session_canary: its crash canary is a transaction that a session holds open, and
                     no row that one can look at (engines.mysql.canary).
    """

    name: str
    port: int
    page_bytes: int
    page_guard: tuple[str, frozenset[str]]
    settings_source: str
    settings_grant: str = ""
    hidden: tuple[str, ...] = ()
    unread: str = ""
    has_atomic_ddl: bool = False
    has_session_durability: bool = False
    has_innodb: bool = False
    has_session_canary: bool = False

    def restores_torn_pages(self, settings: Mapping[str, str]) -> bool:
        """Return True if a server with these settings repairs pages that a cut tore."""
        name, values = self.page_guard
        return settings.get(name, "").lower() in values


POSTGRESQL = Family(
    "postgresql",
    port=5432,
    page_bytes=8192,
    page_guard=("full_page_writes", frozenset({"on"})),
    settings_source="pg_settings, in a session like the load's",
    settings_grant="GRANT pg_read_all_settings TO the account's role",
    hidden=("recovery_init_sync_method",),
    unread="data_directory",
    has_atomic_ddl=True,
    has_session_durability=True,
)
MYSQL = Family(
    "mysql",
    port=3306,
    page_bytes=16384,
    page_guard=(
        "innodb_doublewrite",
        frozenset({"on", "1", "detect_and_recover", "fast"}),
    ),
    settings_source="SHOW VARIABLES, in a session like the load's",
    has_innodb=True,
    has_session_canary=True,
)
FAMILIES: Mapping[str, Family] = {family.name: family for family in (POSTGRESQL, MYSQL)}
