"""Keeps the sessions of a group on their server; commits one operation by itself."""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown
from dbcheck.model.cluster import Weakens
from dbcheck.model.server import ServerFacts, is_restarted
from dbcheck.ports.connection import Session
from dbcheck.ports.engine import Engine
from dbcheck.rows.operation import Operation
from dbcheck.rows.plans.plan import Plan

ANSWER_S = 30.0


def is_same_server(engine: Engine, before: ServerFacts) -> bool:
    """Return True if the server that answers now is still the process of *before*.

    Raise EngineError if none answers.
    """
    now = engine.facts()
    return not is_restarted(before, now) and now.identity == before.identity


@dataclass(frozen=True)
class Sessions:
    """The sessions of one loop; can be pickled for a process of its own.

    before:      the server when the load began.
    plan:        what they send.
    weakens:     the kind of the control whose sessions they are, None without one.
    count:       how many sessions there are.
    first, step: their numbers are first, first + step, and so on, also those of
                 sessions that replace broken ones.
    rate:        commits/s of all together, 0 for as many as the server takes.
    ramp_s:      seconds within which they begin, one after the other.
    has_housekeeping: one more session does the plan's tasks.
    """

    engine: Engine
    before: ServerFacts
    plan: Plan
    weakens: Weakens | None
    count: int
    first: int = 1
    step: int = 1
    rate: float = 0.0
    ramp_s: float = 0.0
    has_housekeeping: bool = False

    @property
    def may_replace(self) -> bool:
        """True if a broken session may be replaced."""
        return self.plan.replaces_sessions

    def numbers(self) -> Iterator[int]:
        """Return the session numbers, without end."""
        return itertools.count(self.first, self.step)

    def open_housekeeping(self) -> Session:
        """Connect the session that does the tasks; raise as open_session() does."""
        statements = self.plan.housekeeping_statements
        return self.engine.open_session(statements, server=self.before)

    def open_session(self) -> Session:
        """Connect a session; raise EngineError if that is refused.

        Raise OtherServer if it reaches another server than the load began with, or
        that server after a restart.
        """
        statements, engine = self.plan.statements, self.engine
        if self.weakens is None:
            return engine.open_session(statements, server=self.before)
        return engine.open_weak_session(statements, self.weakens, server=self.before)

    def is_same_server(self) -> bool:
        """Return True if the server is still the process that the load began with."""
        return is_same_server(self.engine, self.before)

    def split(self, count: int) -> list[Sessions]:
        """Return these sessions, split into *count* groups."""
        return [
            replace(
                self,
                count=len(range(part, self.count, count)),
                first=self.first + part * self.step,
                step=self.step * count,
                rate=self.rate / count,
                has_housekeeping=self.has_housekeeping and part == 0,
            )
            for part in range(count)
        ]


def commit(session: Session, operation: Operation, answer_s: float = ANSWER_S) -> int:
    """Commit *operation* over *session* and wait; return the id that it acked.

    Raise what the session raises, and CommitUnknown if there is no reply in time.
    """
    deadline_s = time.monotonic() + answer_s
    sent = session.send(operation)
    while (left_s := deadline_s - time.monotonic()) > 0:
        wanted = [] if sent else [session]
        readable, writable, _ = select.select([session], wanted, [], left_s)
        sent = sent or (bool(writable) and session.flush())
        if readable and (row_id := session.receive()) is not None:
            return row_id
    raise CommitUnknown(
        f"no reply to a commit within {answer_s:g} s", id=ErrorId.COMMIT_UNKNOWN
    )
