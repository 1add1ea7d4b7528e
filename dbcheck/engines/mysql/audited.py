"""What MySQL and MariaDB show beside the variables of one session."""

from __future__ import annotations

from dbcheck.audit.mysql import UNSAFE_TABLES
from dbcheck.core.audited import OtherSettings
from dbcheck.engines.link import SCAN_S
from dbcheck.engines.mysql.link import MysqlLink


def other_settings(link: MysqlLink) -> tuple[OtherSettings, ...]:
    """Return which storage engines without durable commits have tables of users."""
    rows = link.rows("unsafe_tables", answer_s=SCAN_S)
    shown = ", ".join(f"{tables} {engine}" for engine, tables in rows) or "none"
    how = "information_schema.tables, as far as this account may see it"
    return (OtherSettings("the server's tables", how, {UNSAFE_TABLES: shown}),)
