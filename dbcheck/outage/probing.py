"""Tries to commit at several addresses, each in a thread, and notes what came of it.

Each try is a new connection, as a client would make it, and one row in the table of the
probes.  Until an address has answered a commit, a try follows the last one after
TRY_S, or after a hundredth of the time so far: a log of the server does not grow
without limit, and what is measured is as exact as that.  Then tries go on, more and
more rarely: the ack may be that of a server that will not be read.
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dbcheck.base.errors import CommitUnknown, CommitWarned, DbcheckError
from dbcheck.base.system import now_us
from dbcheck.model.outage import ProbeAck, Probed
from dbcheck.outage.program import ProgramFailed
from dbcheck.ports.connection import Session
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.table import OUTAGE

TRY_S, TRY_SHARE, TRY_MAX_S = 0.1, 0.01, 1.0
ACKED_S, ACKED_SHARE, ACKED_MAX_S = 0.25, 0.05, 10.0
# libpq takes two seconds for its least (PostgreSQL 17 manual, connect_timeout).
CONNECT_S = 2.0
# A commit that waits, as for a standby, is left after so long.  Its session may stay on
# the server, so the next one is waited for longer.  At the address of clients that is a
# quarter of the time so far, as only a new connection shows where it leads now.
ANSWER_S, ANSWER_MAX_S = 5.0, 80.0
OWN_GROWTH, GROWTH = 2.0, 1.25
# The connection broke in so many commits that followed each other: each may have ended
# the server, whose rows are not read yet.
BROKEN_MAX = 3
_LOOK_S = 0.25  # so often a wait looks whether it is to end

INSERT = StatementSpec(Verb.INSERT, OUTAGE, OUTAGE.columns[1:])


@dataclass(frozen=True, slots=True)
class Address:
    """Address at which clients may commit.

    open:   connects there; raises DbcheckError, OSError or ProgramFailed.
    target, node: see model.outage.Probed.
    patient: a commit is waited for until the end: it is a program that is asked, which
            commits one after the other and has time limits of its own.
    """

    open: Callable[[], Session]
    target: str
    node: str = ""
    patient: bool = False


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

    def rehearse(self) -> None:
        """Begin one try at each address, before the server is gone."""
        self._start([tries.try_once for tries in self._tries])

    def begin(self) -> None:
        """Begin the tries, after a rehearsal that is over; idempotent."""
        if self.began_us is not None:
            return
        for tries in self._tries:
            tries.forget()
        self.began_us = now_us()
        self._start([tries.run for tries in self._tries])

    def _start(self, calls: Sequence[Callable[[], None]]) -> None:
        self._threads = [
            threading.Thread(target=call, name="outage", daemon=True) for call in calls
        ]
        for thread in self._threads:
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

    def forget(self) -> None:
        """Forget what came of the tries so far; later rows have other keys."""
        self._broken, self._tried_us = 0, None
        self.probed = Probed(self._address.target, self._address.node)

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
        answer_s = math.inf if self._address.patient else self._answer_s
        try:
            session = self._address.open()
            try:
                sent_us = now_us()
                acked_us = commit(
                    session, self._make_operation(), answer_s, self._ending
                )
            finally:
                session.close()
        except ProgramFailed as error:
            self.probed = replace(self.probed, given_up=str(error))
            return
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
            if acked_us is not None:
                ack = ProbeAck(self._seq, tried_us, began_us, sent_us, acked_us)
                self.probed = replace(self.probed, acks=(*self.probed.acks, ack))
            elif self._address.patient or not self._ending.is_set():
                self._note_hung(sent_us)
        self._broken = 0

    def _note_hung(self, sent_us: int) -> None:
        """Note that a commit has had no answer; the next one is waited for longer."""
        waited_s = self._answer_s
        if self._address.patient:
            waited_s = round((now_us() - sent_us) / 1e6, 1)
        self._note(f"no answer to a commit in {waited_s:g} s", hung=1)
        # What holds a commit at a server's own address would hold any other; the
        # address of clients may lead elsewhere since.
        is_own = bool(self._address.node)
        self._note_tried(now_us() if is_own else sent_us)
        longer_s = (OWN_GROWTH if is_own else GROWTH) * self._answer_s
        self._answer_s = min(longer_s, ANSWER_MAX_S)

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


def commit(
    session: Session, operation: Operation, answer_s: float, ending: threading.Event
) -> int | None:
    """Commit *operation* over *session*; return when it was answered, None if late.

    answer_s: in seconds, math.inf without a limit.  ending: no longer than until then.
    Raise what the session raises.
    """
    until_s = time.monotonic() + answer_s
    sent = session.send(operation)
    while not ending.is_set() and (left_s := until_s - time.monotonic()) > 0:
        wanted = [] if sent else [session]
        wait_s = min(left_s, _LOOK_S)
        readable, writable, _ = select.select([session], wanted, [], wait_s)
        sent = sent or (bool(writable) and session.flush())
        if readable and session.receive() is not None:
            return now_us()
    return None
