"""Decides the transactions that a server still lists as prepared after recovery.

They hold locks, and their recovered rows show only once they are decided.  Each is
committed or rolled back as the plan would have done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dbcheck.base.errors import ConnectionLost, EngineError, NotPrepared, OtherServer
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.twophase import PART
from dbcheck.rows.prepared import LeftFate, LeftOver, Name, is_committed
from dbcheck.rows.survivors import DIFFERENT, Records


def list_prepared(engine: Engine, epoch: int, facts: ServerFacts) -> list[Name]:
    """Return the run's transactions that the server lists as prepared."""
    names = map(Name.read, engine.prepared(server=facts))
    return [name for name in names if name is not None and name.epoch == epoch]


class Refusal(NamedTuple):
    """A server's refusal to commit or roll back a prepared transaction.

    gone: the server has no such transaction any more.  perhaps_ours: dbcheck itself may
    have decided the transaction, in an earlier reading that broke off.
    """

    reason: str
    gone: bool = False
    perhaps_ours: bool = False


def decide_transactions(
    engine: Engine, epoch: int, names: Sequence[Name], facts: ServerFacts
) -> dict[Name, Refusal | None]:
    """Decide each transaction; return the server's refusals, None where it obeyed.

    Another client decided a transaction that the server listed before and does not have
    any more.
    """
    refusals = {name: _decide_transaction(engine, name, facts) for name in names}
    if any(refusal and refusal.gone for refusal in refusals.values()):
        for name in list_prepared(engine, epoch, facts):
            if refusal := refusals.get(name):
                refusals[name] = refusal._replace(gone=False)
    return refusals


def decide_remaining_transactions(
    engine: Engine, epoch: int, names: Sequence[Name], facts: ServerFacts
) -> dict[Name, Refusal | None]:
    """Decide the transactions that an earlier reading left undecided.

    names: all that the server listed before that reading decided the first.
    """
    undecided = set(list_prepared(engine, epoch, facts))
    decided = decide_transactions(
        engine, epoch, [name for name in names if name in undecided], facts
    )
    refusals = {name: decided.get(name, _UNLISTED_ANY_MORE) for name in names}
    return {
        name: (
            refusal._replace(perhaps_ours=True) if refusal and refusal.gone else refusal
        )
        for name, refusal in refusals.items()
    }


_UNLISTED_ANY_MORE = Refusal(
    "the server does not list it as prepared any more", gone=True
)


def leave_undecided(names: Sequence[Name]) -> tuple[LeftOver, ...]:
    """Return *names* as undecided: the server was not restarted since the load."""
    return tuple(
        LeftOver(name.session, name.seq, LeftFate.UNDECIDED, _NOT_RESTARTED)
        for name in names
    )


_NOT_RESTARTED = (
    "the server was not restarted since the load, so dbcheck left them alone"
)


def _decide_transaction(
    engine: Engine, name: Name, facts: ServerFacts
) -> Refusal | None:
    try:
        engine.decide(str(name), commit=is_committed(name.seq), server=facts)
    except (ConnectionLost, OtherServer):
        raise
    except EngineError as error:
        return Refusal(str(error), isinstance(error, NotPrepared))
    return None


def find_fates(
    decided: Mapping[Name, Refusal | None], batches: Iterable[Records]
) -> tuple[LeftOver, ...]:
    """Return the fate of each transaction.

    decided: the refusals that decide_transactions() returned.
    batches: the rows of the run, read after the transactions were decided.
    """
    content: dict[tuple[int, int], int] = {}
    wanted = {(name.session, name.seq) for name in decided}
    for records in batches:
        own = records[records["part"] == PART]
        for row in own[["session", "seq", "content"]].tolist():
            if row[:2] in wanted:
                content[row[:2]] = row[2]
    return tuple(
        _describe_left_over(name, refusal, content.get((name.session, name.seq)))
        for name, refusal in decided.items()
    )


def _describe_left_over(
    name: Name, refusal: Refusal | None, content: int | None
) -> LeftOver:
    """Return the fate of one transaction.

    content: of the transaction's row, None without a row.  If an earlier reading of
    dbcheck may have decided the transaction, and the row is as that leaves it, dbcheck
    counts as the client that did.  Otherwise another client did, or the row is lost.
    """
    fate = _find_fate(name, content)
    is_ours = fate in (LeftFate.KEPT, LeftFate.DIFFERENT)
    if refusal is None:
        return LeftOver(name.session, name.seq, fate)
    if refusal.perhaps_ours and is_ours:
        is_there = content is not None
        return LeftOver(name.session, name.seq, fate, perhaps_earlier=is_there)
    fate = LeftFate.GONE if refusal.gone else LeftFate.REFUSED
    return LeftOver(name.session, name.seq, fate, refusal.reason)


def _find_fate(name: Name, content: int | None) -> LeftFate:
    """Return the fate that the row shows if the plan's decision was carried out."""
    if not is_committed(name.seq):
        return LeftFate.KEPT if content is None else LeftFate.PRESENT
    if content is None:
        return LeftFate.ABSENT
    return LeftFate.DIFFERENT if content == DIFFERENT else LeftFate.KEPT
