"""Prepared transactions: how they are named, and those that a server still lists."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import NamedTuple, Self, overload

from dbcheck.rows.acks import Ints
from dbcheck.rows.survivors import Flags

PREFIX = "dbcheck-"
_ROLLED_BACK_EVERY = 4
_NAME = re.compile(re.escape(PREFIX) + r"([0-9]{1,19})-([0-9]{1,6})-([0-9]{1,13})")


class Name(NamedTuple):
    """The operation that prepared a transaction."""

    epoch: int
    session: int
    seq: int

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the operation that *text* names; None if dbcheck did not make it."""
        match = _NAME.fullmatch(text)
        return cls(*map(int, match.groups())) if match else None

    def __str__(self) -> str:
        return f"{PREFIX}{self.epoch}-{self.session}-{self.seq}"


@overload
def is_committed(seq: int) -> bool: ...
@overload
def is_committed(seq: Ints) -> Flags: ...
def is_committed(seq: int | Ints) -> bool | Flags:
    """Return True if the operation after *seq* commits the transaction of *seq*.

    Else it rolls it back.
    """
    return seq % _ROLLED_BACK_EVERY != 0


class LeftFate(enum.Enum):
    """Fate of a prepared transaction that the server listed after recovery."""

    KEPT = "kept"  # it was decided, and its row is as the decision leaves it
    REFUSED = "refused"  # the server refused to commit it or to roll it back
    ABSENT = "absent"  # it was committed, and its row is not there
    DIFFERENT = "different"  # it was committed, and its row is not as it was sent
    PRESENT = "present"  # it was rolled back, and its row is there
    GONE = "gone"  # another client decided it, after it was listed
    # dbcheck did not decide it, as the server was not restarted since the load.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Decisions:
    """Number of decisions on prepared transactions since the server started.

    They count all databases, all clients and refused decisions too, up to the moment
    when dbcheck had listed the prepared transactions and had decided none.
    """

    commits: int
    rollbacks: int


def find_largest_counts(
    one: Decisions | None, other: Decisions | None
) -> Decisions | None:
    """Return the larger of each count: a server that restarts counts from 0 again."""
    if one is None or other is None:
        return one or other
    commits = max(one.commits, other.commits)
    return Decisions(commits, max(one.rollbacks, other.rollbacks))


@dataclass(frozen=True, slots=True)
class Undecided:
    """Losses of transactions that the load had prepared, and had not decided.

    If another client decided such transactions after recovery, before dbcheck listed
    them or read their rows, they look like lost ones.

    rolled_back: not listed, and the row is not there.
    committed: not listed, and the row is there.
    gone: listed, and then perhaps decided by another client (LeftFate.GONE and
          LeftOver.perhaps_earlier).
    """

    rolled_back: int = 0
    committed: int = 0
    gone: int = 0

    @property
    def losses(self) -> int:
        """The number of losses."""
        return self.rolled_back + self.committed + self.gone

    def __add__(self, other: Undecided) -> Undecided:
        """Return the sums of both."""
        return Undecided(
            self.rolled_back + other.rolled_back,
            self.committed + other.committed,
            self.gone + other.gone,
        )


@dataclass(frozen=True, slots=True)
class LeftOver:
    """One prepared transaction that the server listed after recovery.

    session, seq: of the operation that prepared it.
    reason: why dbcheck did not decide it, "" if it did.
    perhaps_earlier: it was not listed any more when dbcheck wanted to decide it, and
            its row is there: another client committed it, or an earlier reading of
            dbcheck that broke off.
    """

    session: int
    seq: int
    fate: LeftFate
    reason: str = ""
    perhaps_earlier: bool = False
