"""What counts as answered, refused, hung or unknown, and when a try follows another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown, CommitWarned, EngineError
from dbcheck.base.system import now_us
from dbcheck.outage import probing, worker
from dbcheck.outage.probing import (
    ACKED_MAX_S,
    ACKED_S,
    BROKEN_MAX,
    TRY_MAX_S,
    TRY_S,
    Address,
    AddressTries,
    Probing,
)
from dbcheck.rows.operation import Operation
from tests.kit.waiting import wait_until

TARGET = "postgresql://u@h/d"
REFUSED = EngineError("it recovers", id=ErrorId.CONNECTION_FAILED)
BROKE = CommitUnknown("it broke", id=ErrorId.COMMIT_UNKNOWN)
WARNED = CommitWarned("it warned", id=ErrorId.COMMIT_WARNED)


class Played:
    """A session whose every commit is answered, unless it raises or says nothing."""

    def __init__(
        self, raises: Exception | None = None, *, answers: bool = True
    ) -> None:
        self._read, self._write = os.pipe()
        self._raises, self._answers = raises, answers
        self.sent: list[Operation] = []
        self.closed = False

    def fileno(self) -> int:
        return self._read

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        self.sent.append(operation)
        if self._answers:
            os.write(self._write, b"x")
        return True

    def flush(self) -> bool:
        return True

    def receive(self) -> int | None:
        if self._raises is not None:
            raise self._raises
        return 1

    def settings(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
        self.closed = True


def tries_of(
    *outcomes: Any,
    epoch: int = 7,
    place: int = 0,
    node: str = "node1",
    patient: bool = False,
) -> AddressTries:
    """Return tries, each of which meets the next of *outcomes*."""
    coming: Iterator[Any] = iter(outcomes)

    def connect() -> Any:
        met = next(coming)
        if isinstance(met, Exception):
            raise met
        return met

    address = Address(connect, TARGET, node, patient)
    made = AddressTries(address, place, epoch, Probing([], epoch)._ending)
    return made


def test_each_way_to_fail_is_counted_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "ANSWER_S", 0.01)
    outcomes = (
        *(REFUSED, OSError("no route"), Played(REFUSED)),
        *(Played(BROKE), Played(WARNED), Played(answers=False), Played()),
    )
    tries = tries_of(*outcomes)
    for _ in outcomes:
        tries.try_once()
    found = tries.probed
    assert (found.refused, found.unknown, found.hung) == (3, 2, 1)
    assert [ack.seq for ack in found.acks] == [7]
    assert found.error == "no answer to a commit in 0.01 s"
    assert all(one.closed for one in outcomes if isinstance(one, Played))


def test_a_row_names_its_address_and_its_try() -> None:
    session = Played()
    tries = tries_of(REFUSED, session, epoch=9, place=3)
    tries.try_once()
    tries.try_once()
    (operation,) = session.sent
    (statement,) = operation.statements
    assert statement.name == "insert_outage"
    assert statement.values[:4] == (9, 3, 2, 0)


def test_an_ack_knows_when_the_try_before_it_began() -> None:
    tries = tries_of(REFUSED, Played(), Played())
    for _ in range(3):
        tries.try_once()
    first, second = tries.probed.acks
    assert first.tried_us is not None
    assert first.tried_us <= first.began_us <= first.acked_us
    assert second.tried_us == first.began_us


def test_a_commit_that_hung_shows_it_until_it_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "ANSWER_S", 0.05)
    tries = tries_of(Played(answers=False), Played())
    tries.try_once()
    given_up_us = tries.probed.tried_us
    tries.try_once()
    (ack,) = tries.probed.acks
    assert ack.tried_us == given_up_us
    assert ack.began_us - (given_up_us or 0) < 50_000


def test_at_the_address_of_clients_it_shows_no_more_than_its_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new connection might have led to another server meanwhile."""
    monkeypatch.setattr(probing, "ANSWER_S", 0.2)
    tries = tries_of(Played(answers=False), Played(), node="")
    began_us = now_us()
    tries.try_once()
    assert (tries.probed.tried_us or 0) - began_us < 150_000
    assert tries.probed.hung == 1


def test_a_patient_try_waits_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "ANSWER_S", 0.01)
    made = Probing([Address(lambda: Played(answers=False), TARGET, patient=True)], 1)
    made.begin()
    wait_until(lambda: made.probed()[0].tried_us is not None, "a try")
    assert made.probed()[0].hung == 0
    made.end(10)
    assert made.probed()[0].hung == 1


def test_what_came_of_a_rehearsal_is_forgotten_but_for_its_key() -> None:
    made = Probing([Address(Played, TARGET)], 1)
    made.rehearse()
    wait_until(lambda: bool(made.probed()[0].acks), "an ack of the rehearsal")
    assert made.began_us is None
    made.begin()
    wait_until(lambda: bool(made.probed()[0].acks), "an ack")
    made.end(10)
    first, *_ = made.probed()[0].acks
    assert (first.seq, first.tried_us) == (2, None)


def test_connections_that_break_one_by_one_end_the_tries() -> None:
    """Each may have ended a server whose rows are not read yet."""
    tries = tries_of(*[Played(BROKE) for _ in range(BROKEN_MAX)])
    tries.run()
    assert "broke" in tries.probed.given_up
    assert tries.probed.unknown == BROKEN_MAX


def test_another_outcome_in_between_lets_the_tries_go_on() -> None:
    broken = [Played(BROKE) for _ in range(BROKEN_MAX - 1)]
    tries = tries_of(*broken, REFUSED, Played(BROKE))
    for _ in range(BROKEN_MAX + 1):
        tries.try_once()
    assert not tries.probed.given_up


def test_a_commit_that_hangs_is_waited_for_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "ANSWER_S", 0.01)
    tries = tries_of(Played(answers=False), Played(answers=False))
    for seconds in ("0.01", "0.02"):
        tries.try_once()
        assert tries.probed.error.endswith(f"in {seconds} s")


def test_at_the_address_of_clients_it_is_a_quarter_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "ANSWER_S", 0.01)
    tries = tries_of(Played(answers=False), Played(answers=False), node="")
    for seconds in ("0.01", "0.0125"):
        tries.try_once()
        assert tries.probed.error.endswith(f"in {seconds} s")


@pytest.mark.parametrize(
    ("passed_s", "pause_s"), [(0, TRY_S), (5, TRY_S), (50, 0.5), (5000, TRY_MAX_S)]
)
def test_tries_that_fail_become_rarer(
    passed_s: int, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "now_us", lambda: passed_s * 10**6)
    assert tries_of()._choose_pause_s(0, passed_s * 10**6) == pytest.approx(pause_s)


@pytest.mark.parametrize(
    ("passed_s", "pause_s"), [(1, ACKED_S), (100, 5.0), (5000, ACKED_MAX_S)]
)
def test_tries_after_an_ack_become_rarer(
    passed_s: int, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(probing, "now_us", lambda: clock[0])
    tries = tries_of(Played(), Played())
    tries.try_once()
    clock[0] = passed_s * 10**6
    tries.try_once()
    assert tries._choose_pause_s(0, clock[0]) == pytest.approx(pause_s)


def test_nothing_is_tried_before_the_beginning() -> None:
    session = Played()
    made = Probing([Address(lambda: session, TARGET)], 1)
    assert made.began_us is None
    assert not session.sent
    made.begin()
    wait_until(lambda: bool(made.probed()[0].acks), "an ack")
    made.end(10)
    assert made.began_us is not None


def test_a_process_that_was_not_scheduled_says_from_when_until_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0]
    monkeypatch.setattr(worker, "now_us", lambda: clock[0])
    ticker = worker.Ticker()
    for moment_us in (50_000, 100_000, 900_000, 950_000):
        clock[0] = moment_us
        ticker.tick()
    assert ticker.gaps == [(100_000, 900_000)]
