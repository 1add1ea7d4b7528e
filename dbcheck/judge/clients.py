"""Losses that clients of the server cause, and which are not held against it then.

Of two kinds alone: a transaction that was left prepared and that another client
decided, and an operation without an ack that was sent to the server twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.model.verdict import count_of
from dbcheck.rows.prepared import Decisions, Undecided
from dbcheck.rows.reconcile import Reconciliation

REPEATS = "a proxy or a driver that repeats what it got no answer to does that"


@dataclass(frozen=True, slots=True)
class ByClients:
    """How many losses clients caused, and what shows it, a sentence each."""

    losses: int = 0
    reasons: tuple[str, ...] = ()


NOTHING = ByClients()


def by_clients(found: Reconciliation | None, decisions: Decisions | None) -> ByClients:
    """Return which losses are not held against the server.

    decisions: see AfterRecord.
    """
    if found is None:
        return NOTHING
    decided = decided_elsewhere(found.undecided, decisions)
    reasons = []
    if decided:
        reasons.append(_who_decided(decided, found.undecided, decisions))
    if found.unacked_repeats:
        reasons.append(_repeated(found.unacked_repeats))
    return ByClients(decided + found.unacked_repeats, tuple(reasons))


def decided_elsewhere(undecided: Undecided, decisions: Decisions | None) -> int:
    """Return how many losses are of transactions that another client decided.

    Where the server counts decisions, no more than it counted are held to be such; one
    that was decided before the server restarted once more is in no count, so a FAIL
    names that cause first.  Where it counts none, one that was listed and then gone
    shows that there is such a client.
    """
    if decisions is None:
        return undecided.losses if undecided.gone else 0
    rolled_back = min(undecided.rolled_back, decisions.rollbacks)
    return rolled_back + min(undecided.committed, decisions.commits) + undecided.gone


def uncounted(undecided: Undecided, decisions: Decisions | None) -> int:
    """Return how many of these losses no decision that the server counted explains.

    0 where it counts none.
    """
    if decisions is None:
        return 0
    return undecided.losses - decided_elsewhere(undecided, decisions)


def _who_decided(losses: int, undecided: Undecided, decisions: Decisions | None) -> str:
    shown = []
    if decisions and decisions.rollbacks + decisions.commits:
        rolled_back = count_of(decisions.rollbacks, "rollback")
        committed = count_of(decisions.commits, "commit")
        shown.append(
            f"the server counted {rolled_back} and {committed}"
            " of prepared transactions since it started, before dbcheck decided any;"
            " that is of all clients of this server, so a loss may hide behind it: stop"
            " other clients that use XA, and cut again"
        )
    if undecided.gone:
        gone = count_of(undecided.gone, "transaction")
        shown.append(f"{gone} that it had listed after recovery then vanished")
    return (
        f"somebody else may have decided {count_of(losses, 'prepared transaction')}"
        " after recovery (a DBA, a transaction manager, or a reading of dbcheck that"
        " broke off):"
        f" {'; '.join(shown)}"
    )


def _repeated(rows: int) -> str:
    repeat = "repeats an operation" if rows == 1 else "repeat operations"
    return (
        f"{count_of(rows, 'row')} {repeat} that the server never acknowledged:"
        f" {REPEATS}"
    )
