"""Tries to commit at several addresses, each in a thread, and notes what came of it.

Each try is a new connection, as a client would make it, and one row in the table of the
probes.  Until an address has answered a commit, a try follows the last one after
TRY_S, or after a hundredth of the time so far: a log of the server does not grow
without limit, and what is measured is as exact as that.  Then tries go on, more and
more rarely: the ack may be that of a server that will not be read.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dbcheck.base.errors import CommitUnknown, CommitWarned, DbcheckError
from dbcheck.base.system import now_us
from dbcheck.model.outage import ProbeAck, Probed
from dbcheck.ports.connection import Session
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.table import OUTAGE

TRY_S, TRY_SHARE, TRY_MAX_S = 0.1, 0.01, 1.0
ACKED_S, ACKED_SHARE, ACKED_MAX_S = 0.25, 0.05, 10.0
# libpq takes two seconds for its least (PostgreSQL 17 manual, connect_timeout).
CONNECT_S = 2.0
# A commit that waits, as for a standby, is left after so long.  Its session may stay on
# the server, so each next one is waited for twice as long.
ANSWER_S, ANSWER_MAX_S = 5.0, 80.0
# The connection broke in so many commits that followed each other: each may have ended
# the server, whose rows are not read yet.
BROKEN_MAX = 3

INSERT = StatementSpec(Verb.INSERT, OUTAGE, OUTAGE.columns[1:])


@dataclass(frozen=True, slots=True)
class Address:
    """Address at which clients may commit.

    open:   connects there; raises DbcheckError or OSError.
    target, node: see model.outage.Probed.
    """

    open: Callable[[], Session]
    target: str
    node: str = ""


class Probing:
    """The tries at all addresses; begin() starts a thread for each.

    epoch: of the cycle, which all rows have.
    """

    def __init__(self, addresses: Sequence[Address], epoch: int) -> None:
        self._ending = threading.Event()
        self._tries = [
            AddressTries(address, place, epoch, self._ending)
            for place, address in enumerate(addresses)
        ]
        self._threads: list[threading.Thread] = []
        self.began_us: int | None = None

    def begin(self) -> None:
        """Begin the tries; idempotent."""
        if self._threads:
            return
        self.began_us = now_us()
        for tries in self._tries:
            thread = threading.Thread(target=tries.run, name="outage", daemon=True)
            self._threads.append(thread)
            thread.start()

    def probed(self) -> tuple[Probed, ...]:
        """Return what came of the tries so far, by address."""
        return tuple(tries.probed for tries in self._tries)

    def end(self, wait_s: float) -> None:
        """Make no further try; wait for those under way, all together *wait_s*."""
        self._ending.set()
        until_s = time.monotonic() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))


class AddressTries:
    """The tries at one address.

    probed: what came of them; replaced whole, so that any thread may read it.
    """

    def __init__(
        self, address: Address, place: int, epoch: int, ending: threading.Event
    ) -> None:
        self._address, self._place, self._epoch = address, place, epoch
        self._ending = ending
        self._seq = self._broken = 0
        self._answer_s = ANSWER_S
        self._tried_us: int | None = None
        self.probed = Probed(address.target, address.node)

    def run(self) -> None:
        """Try until the end, or until the connection broke too often."""
        began_us = now_us()
        while not self._ending.is_set() and not self.probed.given_up:
            tried_us = now_us()
            self.try_once()
            self._ending.wait(self._choose_pause_s(began_us, tried_us))

    def _choose_pause_s(self, began_us: int, tried_us: int) -> float:
        """Return the seconds until the next try."""
        moment_us, acks = now_us(), self.probed.acks
        if acks and acks[-1].began_us >= tried_us:
            passed_s = (moment_us - acks[0].acked_us) / 1e6
            every_s = min(max(ACKED_S, ACKED_SHARE * passed_s), ACKED_MAX_S)
        else:
            passed_s = (moment_us - began_us) / 1e6
            every_s = min(max(TRY_S, TRY_SHARE * passed_s), TRY_MAX_S)
        return max(0.0, every_s - (moment_us - tried_us) / 1e6)

    def try_once(self) -> None:
        """Connect, commit a row, and note what came of it."""
        tried_us, began_us = self._tried_us, now_us()
        self._note_tried(began_us)
        self._seq += 1
        try:
            session = self._address.open()
            try:
                sent_us = now_us()
                is_answered = commit(session, self._make_operation(), self._answer_s)
            finally:
                session.close()
        except CommitWarned as error:
            self._note(str(error), unknown=1)
        except CommitUnknown as error:
            self._broken += 1
            self._note(str(error), unknown=1)
            if self._broken == BROKEN_MAX:
                given_up = f"its connection broke in {BROKEN_MAX} commits, one by one"
                self.probed = replace(self.probed, given_up=given_up)
            return
        except (DbcheckError, OSError) as error:
            self._note(str(error), refused=1)
        else:
            if is_answered:
                ack = ProbeAck(self._seq, tried_us, began_us, sent_us, now_us())
                self.probed = replace(self.probed, acks=(*self.probed.acks, ack))
            else:
                self._note(f"no answer to a commit in {self._answer_s:g} s", hung=1)
                self._answer_s = min(2 * self._answer_s, ANSWER_MAX_S)
                self._note_tried(now_us())
        self._broken = 0

    def _note_tried(self, moment_us: int) -> None:
        """Note until when the try under way shows that none could commit."""
        self._tried_us = moment_us
        self.probed = replace(self.probed, tried_us=moment_us)

    def _note(
        self, error: str, *, refused: int = 0, hung: int = 0, unknown: int = 0
    ) -> None:
        self.probed = replace(
            self.probed,
            error=error,
            refused=self.probed.refused + refused,
            hung=self.probed.hung + hung,
            unknown=self.probed.unknown + unknown,
        )

    def _make_operation(self) -> Operation:
        values = (self._epoch, self._place, self._seq, 0, b"", 0)
        return Operation(self._place, self._seq, (Statement(INSERT.name, values),))


def commit(session: Session, operation: Operation, answer_s: float) -> bool:
    """Commit *operation* over *session*; return whether it was answered in time.

    answer_s: in seconds.  Raise what the session raises.
    """
    until_s = time.monotonic() + answer_s
    sent = session.send(operation)
    while (left_s := until_s - time.monotonic()) > 0:
        wanted = [] if sent else [session]
        readable, writable, _ = select.select([session], wanted, [], left_s)
        sent = sent or (bool(writable) and session.flush())
        if readable and session.receive() is not None:
            return True
    return False
