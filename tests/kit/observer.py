"""An observer of an outage, which only commits, and what a run says of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.lab.lab import Lab
from dbcheck.model.outage import OutageRecord, OutageResult
from dbcheck.witness.log import FrameLogReader
from tests.kit.lab_access import connect, execute_on
from tests.kit.waiting import wait_until


@dataclass
class Observer:
    """Commits to a table of its own, at several addresses in turn, and notes when.

    places: the URL and the password of each.
    acks: when each was answered, in us of the monotonic clock.
    tried: when each try began that failed.
    """

    places: list[tuple[str, str]]
    acks: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.ending.is_set():
            for place in self.places:
                self._commit_to(*place)

    def _commit_to(self, url: str, password: str) -> None:
        began_us = time.monotonic_ns() // 1000
        try:
            with contextlib.closing(connect(url, password)) as link:
                cursor = link.cursor()
                while not self.ending.is_set():
                    began_us = time.monotonic_ns() // 1000
                    cursor.execute(f"insert into {TABLE} values (1)")
                    self.acks.append(time.monotonic_ns() // 1000)
                    self.ending.wait(0.005)
        except Exception:  # whatever the driver raises of a server that is gone
            self.tried.append(began_us)
            self.ending.wait(0.005)

    def gap(self) -> tuple[int, int]:
        """Return the acks between which most time passed."""
        pairs = list(zip(self.acks, self.acks[1:], strict=False))
        return max(pairs, key=lambda pair: pair[1] - pair[0])


TABLE = "observed"


@contextlib.contextmanager
def observing(*labs: Lab, through: str = "") -> Iterator[Observer]:
    """Have an observer commit beside the body, until it has seen the servers back.

    through: the URL at which it commits, if not at those of the labs.
    """
    execute_on(labs[0], f"create table {TABLE} (n integer)")
    urls = [through] if through else [lab.target_url for lab in labs]
    made = Observer([(url, labs[0].password) for url in urls])
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        wait_until(lambda: len(made.acks) > 2, "the observer's first commits")
        yield made
        done = len(made.acks)
        wait_until(lambda: len(made.acks) > done, "the observer's last commit")
    finally:
        made.ending.set()
        thread.join()


def outage_of(outcome: Outcome) -> OutageResult:
    """Return what the result says, which is the same when it is judged again."""
    found = outcome.result.outage
    assert found is not None
    again = judge_run(outcome.run, FrameLogReader()).result.outage
    assert again == found
    return found


def record_of(outcome: Outcome) -> OutageRecord:
    found = outcome.run.outage()
    assert found is not None
    return found


def require_agreement(outcome: Outcome, seen: Observer) -> None:
    """The two saw the same outage, as exactly as each states it.

    The moment at which a commit was possible lies between the last try that failed and
    the first answer, for each of the two. Where a pooler let the observer's one commit
    wait until the server was back, no try failed, and its last commit is the bound.
    """
    outage, load = outage_of(outcome), outcome.load
    assert outage.seconds is not None and outage.least_s is not None, outage
    assert load is not None and load.last_ack_us is not None
    last_us, first_us = seen.gap()
    assert abs(last_us - load.last_ack_us) < 0.5e6
    failed_us = max([last_us, *(moment for moment in seen.tried if moment < first_us)])
    ours = (
        load.last_ack_us + outage.least_s * 1e6,
        load.last_ack_us + (outage.seconds * 1e6),
    )
    slack_us = 0.05e6  # figures are rounded, and the server serves one before the other
    assert ours[0] <= first_us + slack_us, (outage, seen.gap())
    assert failed_us <= ours[1] + slack_us, (outage, seen.gap())
