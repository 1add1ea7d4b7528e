"""Decides the transactions that a server still lists as prepared after recovery.

They hold locks, and what the server recovered of them shows only once they are decided:
as the plan would have decided them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbcheck.campaign import observable
from dbcheck.core.leftover import LeftFate, LeftOver, Name, is_committed
from dbcheck.core.server import ServerFacts
from dbcheck.core.survivors import DIFFERENT, Records
from dbcheck.core.twophase import PART
from dbcheck.errors import ConnectionLost, EngineError, OtherServer
from dbcheck.ports.engine import Engine


def listed(engine: Engine, epoch: int, facts: ServerFacts) -> list[Name]:
    """Return those of a run's transactions that the server lists as prepared."""
    names = map(Name.read, observable.prepared(engine, facts))
    return [name for name in names if name is not None and name.epoch == epoch]


def decide(
    engine: Engine, names: Sequence[Name], facts: ServerFacts
) -> dict[Name, str]:
    """Decide each transaction; return why the server refused, "" where it did not."""
    return {name: _refusal(engine, name, facts) for name in names}


def _refusal(engine: Engine, name: Name, facts: ServerFacts) -> str:
    try:
        observable.decide(engine, str(name), facts, commit=is_committed(name.seq))
    except (ConnectionLost, OtherServer):
        raise
    except EngineError as error:
        return str(error)
    return ""


def fates(
    decided: Mapping[Name, str], batches: Iterable[Records]
) -> tuple[LeftOver, ...]:
    """Return what became of each transaction.

    decided: as decide() returned it.  batches: the rows of the run, read after that.
    """
    content: dict[tuple[int, int], int] = {}
    wanted = {(name.session, name.seq) for name in decided}
    for records in batches:
        own = records[records["part"] == PART]
        for row in own[["session", "seq", "content"]].tolist():
            if row[:2] in wanted:
                content[row[:2]] = row[2]
    return tuple(
        LeftOver(
            name.session,
            name.seq,
            _fate(name, reason, content.get((name.session, name.seq))),
            reason,
        )
        for name, reason in decided.items()
    )


def _fate(name: Name, reason: str, content: int | None) -> LeftFate:
    """Return the fate of one; content: of its row, None if there is none."""
    if reason:
        return LeftFate.REFUSED
    if not is_committed(name.seq):
        return LeftFate.KEPT if content is None else LeftFate.PRESENT
    if content is None:
        return LeftFate.ABSENT
    return LeftFate.DIFFERENT if content == DIFFERENT else LeftFate.KEPT
