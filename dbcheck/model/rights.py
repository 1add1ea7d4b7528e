"""Rights of dbcheck's account: what each is for, and what happens without it.

The engines have the lists: engines.mysql.rights and engines.postgresql.rights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError


@dataclass(frozen=True, slots=True)
class Right:
    """One statement that an administrator runs for the account.

    statement: SQL, with its semicolon.
    why:       what dbcheck does with the right.
    without:   what happens without it; "" if dbcheck refuses to begin.
    only:      where the statement is possible or needed, "" if everywhere.
    """

    statement: str
    why: str
    without: str = ""
    only: str = ""

    @property
    def is_required(self) -> bool:
        """True if dbcheck refuses to begin without it."""
        return not self.without


@dataclass(frozen=True, slots=True)
class GrantsResult:
    """Output of dbcheck grants --json.

    account, database: as the statements name them.  create: statements that create the
    account, and on PostgreSQL the database, with CHANGE-ME as the password.  rights: to
    be granted in that database; a right whose *without* is "" is required.
    """

    dbcheck: str
    product: str
    workload: str
    control: bool
    account: str
    database: str
    create: tuple[str, ...]
    rights: tuple[Right, ...]


class MissingRight(NamedTuple):
    """What an account lacks, such as "UPDATE on dbcheck.item", and what gives it."""

    what: str
    statement: str


def missing_rights_error(account: str, missing: Sequence[MissingRight]) -> EngineError:
    """Return the error that names every right that is *missing*, with its GRANT."""
    statements = dict.fromkeys(each.statement for each in missing)
    return EngineError(
        f"the account {account} lacks {'; '.join(each.what for each in missing)}",
        id=ErrorId.PRIVILEGE_MISSING,
        hint=f"Run: {' '.join(statements)}",
    )
