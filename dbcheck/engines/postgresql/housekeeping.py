"""Which chores an account may do on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.rows.chores import ChoreKind

_HAS_ROLE = 15_00_00  # the first version with pg_checkpoint (its release notes, E.1.3)


def lacking(link: PostgresqlLink, kinds: Sequence[ChoreKind]) -> dict[ChoreKind, str]:
    """Return which chores cannot be done, and why."""
    version, may_checkpoint, may_rotate, account = link.row("chores")
    found: dict[ChoreKind, str] = {}
    if not may_checkpoint:
        found[ChoreKind.CHECKPOINT] = (
            f"run: grant pg_checkpoint to {account};"
            if version >= _HAS_ROLE
            else "before PostgreSQL 15 only a superuser may"
        )
    if not may_rotate:
        found[ChoreKind.ROTATE] = (
            "run in this database: grant execute on function pg_switch_wal() to"
            f" {account};"
        )
    return {kind: why for kind, why in found.items() if kind in kinds}
