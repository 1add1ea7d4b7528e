"""Logs of several processes over one connection, as their event loops use them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.agent import witness as agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, WitnessError
from dbcheck.base.system import now_us
from dbcheck.model.witness import Watermark
from dbcheck.remote.channel import Pipe
from dbcheck.rows.acks import ACKS_PER_BODY_MAX, AckValues
from dbcheck.witness import relay
from dbcheck.witness.looplog import LoopLog
from dbcheck.witness.relay import SharedLog
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import AgentWitness
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until
from tests.kit.witnesses import (
    Place,
    ack_of,
    give_up_after,
    read_back,
    running_place,
    witness_threads,
)

RUN, LOGS = "relayed", 3
NUMBERS = range(1, LOGS + 1)
SOON_S = 20.0
MARKS = 2000  # more than a socket takes that nobody reads


@pytest.fixture(scope="module", params=["openssh", "file"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with running_place(request.param, tmp_path_factory.mktemp("relay")) as place:
        yield place


@pytest.fixture(autouse=True)
def nothing_is_left(place: Place) -> Iterator[None]:
    yield
    wait_until(lambda: not place.agents(), "the agents are gone")
    wait_until(lambda: witness_threads() == [], "the threads are gone")


def inherit(shared: SharedLog, number: int) -> LoopLog:
    """Open the log as a process does that inherited its descriptor."""
    opener = shared.open()
    inherited = replace(opener, descriptor=os.dup(opener.descriptor))
    shared.close()
    return inherited.join(RUN, number)


@contextmanager
def joined(
    place: Place, folder: Path, limits: WindowLimits | None = None
) -> Iterator[tuple[AgentWitness, list[LoopLog]]]:
    """Give a run of a witness, and the logs that its processes opened."""
    witness = place.witness(folder=folder, limits=limits)
    witness.create(RUN, b'{"logs": %d}' % (LOGS + 1)).close()
    logs = [
        inherit(shared, at) for at, shared in enumerate(witness.share(RUN, NUMBERS), 1)
    ]
    assert len(place.agents()) == 1
    try:
        yield witness, logs
    finally:
        for log in logs:
            log._channel.close()
        witness.close()


def acks_for(number: int, count: int) -> list[AckValues]:
    return [ack_of(number, seq) for seq in range(1, count + 1)]


def run_loop(logs: Sequence[LoopLog], until: Sequence[int]) -> None:
    """Let the loops of *logs* run until so many acks of each are confirmed."""
    while [log.confirmed() for log in logs] != list(until):
        due_us = min(log.send_due(now_us()) for log in logs)
        wait_s = min(SOON_S, max(0, due_us - now_us()) / 1e6)
        ready = select.select(logs, [], [], wait_s)[0]
        assert ready or wait_s < SOON_S, "nothing was confirmed"
        for log in ready:
            log.take_news()


def closed(logs: Sequence[LoopLog]) -> list[Watermark]:
    return [log.close() for log in logs]


def test_each_process_has_its_own_log_and_the_agent_serves_all(
    place: Place, tmp_path: Path
) -> None:
    with joined(place, tmp_path / "logs") as (witness, logs):
        assert len({log.fileno() for log in logs}) == LOGS
        for number, log in zip(NUMBERS, logs, strict=True):
            log.append_many(acks_for(number, 1000 * number))
        run_loop(logs, [1000, 2000, 3000])
        logs[0].append_many([ack_of(1, 1001)])
        marks = closed(logs)
        assert closed(logs) == marks
        assert [mark.acks for mark in marks] == [1001, 2000, 3000]
        for number, mark in zip(NUMBERS, marks, strict=True):
            acks, _ = read_back(witness, RUN, mark, number)
            assert acks == [ack_of(number, seq) for seq in range(1, mark.acks + 1)]
        with refused(ErrorId.WITNESS_LOG_CLOSED, WitnessError):
            logs[0].append_many(acks_for(1, 1))
        witness.remove(RUN)  # each log was freed when it was closed


def test_a_log_that_is_closed_is_free_while_others_go_on(
    place: Place, tmp_path: Path
) -> None:
    with joined(place, tmp_path / "logs") as (witness, logs):
        logs[0].close()
        with refused(ErrorId.WITNESS_LOG_EXISTS, WitnessError):
            witness.join(RUN, 1)
        with refused(ErrorId.WITNESS_IN_USE, WitnessError):
            witness.join(RUN, 2)
        logs[1].append_many(acks_for(2, 5))
        assert logs[1].close().acks == 5
        assert logs[2].close().acks == 0


def test_a_process_that_is_killed_leaves_the_others_alone(
    place: Place, tmp_path: Path
) -> None:
    with joined(place, tmp_path / "logs") as (witness, logs):
        killed, *others = logs
        killed.append_many(acks_for(1, 10))
        run_loop([killed], [10])
        killed._pipe.send(b"\x05\x01")  # half of a head
        killed._channel.close()
        for number, log in zip((2, 3), others, strict=True):
            log.append_many(acks_for(number, 100))
        assert [mark.acks for mark in closed(others)] == [100, 100]
        acks, _ = read_back(witness, RUN, None, 1)
        assert acks == [ack_of(1, seq) for seq in range(1, 11)]


def test_in_lockstep_each_ack_is_sent_at_once(place: Place, tmp_path: Path) -> None:
    with joined(place, tmp_path / "logs", WindowLimits(lockstep=True)) as (_, logs):
        for seq in range(1, 51):
            for number, log in zip(NUMBERS, logs, strict=True):
                log.append_many([ack_of(number, seq)])
            run_loop(logs, [seq] * LOGS)
        assert [log.window().acks for log in logs] == [1] * LOGS
        closed(logs)


def test_a_process_that_reads_nothing_does_not_hold_up_the_others(
    place: Place, tmp_path: Path
) -> None:
    with joined(place, tmp_path / "logs", WindowLimits(lockstep=True)) as (_, logs):
        stopped, other, _ = logs
        for seq in range(1, MARKS + 1):
            stopped.append_many([ack_of(1, seq)])
            stopped.send_due(now_us())
            other.append_many([ack_of(2, seq)])
            run_loop([other], [seq])
        run_loop([stopped], [MARKS])
        assert [mark.acks for mark in closed([stopped, other])] == [MARKS, MARKS]


def test_an_agent_that_takes_nothing_never_blocks_a_loop(
    place: Place, tmp_path: Path
) -> None:
    count = 100 * ACKS_PER_BODY_MAX
    limits = WindowLimits(acks=2 * count, age_s=30, silence_s=60)
    with joined(place, tmp_path / "logs", limits) as (witness, logs):
        (pid,) = place.agents()
        os.kill(pid, signal.SIGSTOP)
        try:
            logs[0].append_many(acks_for(1, count))
            due_us = logs[0].send_due(now_us())
            assert due_us < now_us() + 1_000_000  # not all of it fitted
            assert logs[0].unconfirmed() == count
        finally:
            os.kill(pid, signal.SIGCONT)
        marks = closed(logs)
        assert marks[0].acks == count
        assert read_back(witness, RUN, marks[0], 1)[0][-1] == ack_of(1, count)


def test_an_agent_that_is_killed_fails_every_log(place: Place, tmp_path: Path) -> None:
    with joined(place, tmp_path / "logs") as (_, logs):
        for number, log in zip(NUMBERS, logs, strict=True):
            log.append_many(acks_for(number, 5))
        (pid,) = place.agents()
        os.kill(pid, signal.SIGKILL)
        for log in logs:
            assert select.select([log], [], [], SOON_S)[0]
            with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
                log.take_news()
            with refused(ErrorId.AGENT_ENDED, WitnessError):
                log.room()
            with refused(ErrorId.AGENT_ENDED, WitnessError):
                log.close()


def test_a_log_that_cannot_be_written_fails_every_log_with_its_reason(
    place: Place, tmp_path: Path
) -> None:
    with joined(place, tmp_path / "logs") as (_, logs):
        (tmp_path / "logs" / RUN / "acks-2.log").unlink()
        logs[1].append_many(acks_for(2, 5))
        logs[1].send_due(now_us())
        for log in logs:
            assert select.select([log], [], [], SOON_S)[0]
            with refused(ErrorId.AGENT_FAILED, WitnessError, naming="log was deleted"):
                log.take_news()


def test_a_witness_that_confirms_nothing_is_given_up(
    place: Place, tmp_path: Path
) -> None:
    with joined(place, tmp_path / "logs") as (_, logs):
        for log in logs:
            give_up_after(log, 2.5)
        (pid,) = place.agents()
        os.kill(pid, signal.SIGSTOP)
        try:
            logs[0].append_many(acks_for(1, 5))
            with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError):
                logs[0].close()
        finally:
            os.kill(pid, signal.SIGCONT)


def test_more_confirmed_than_was_sent_is_refused(place: Place, tmp_path: Path) -> None:
    """As if the relay gave a process the marks of another."""
    with joined(place, tmp_path / "logs") as (_, logs):
        logs[0].append_many(acks_for(1, 5))
        run_loop([logs[0]], [5])
        mark = (2, 5, 0, bytes.fromhex(logs[0].watermark().digest), 1)
        with refused(ErrorId.WITNESS_NOT_PLAUSIBLE, WitnessError):
            logs[1]._take_mark(agent.MARKED.pack(*mark))


def test_an_agent_that_hangs_ends_with_the_processes(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "END_TIMEOUT_S", 0.0)
    with joined(place, tmp_path / "logs") as (_, logs):
        (pid,) = place.agents()
        os.kill(pid, signal.SIGSTOP)
        try:
            for log in logs:
                log._channel.close()
            wait_until(lambda: witness_threads() == [], "the relay has given up")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_a_log_that_is_closed_before_it_was_opened_holds_up_nothing(
    place: Place, tmp_path: Path
) -> None:
    witness = place.witness(folder=tmp_path / "logs")
    witness.create(RUN, b'{"logs": 3}').close()
    unused, used = witness.share(RUN, (1, 2))
    unused.close()
    log = inherit(used, 2)
    log.append_many(acks_for(2, 5))
    assert log.close().acks == 5
    log._channel.close()
    wait_until(lambda: not place.agents(), "the agent is gone")
    used.close()
    unused.close()
    witness.close()


def test_a_witness_that_cannot_be_reached_is_tried_once_for_all_logs(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight processes would wait eight times for a host that does not answer."""
    witness = place.witness(folder=tmp_path / "logs")
    tried: list[int] = []

    def fail() -> Pipe:
        tried.append(1)
        raise HostError("no route", id=ErrorId.HOST_NOT_ANSWERING, hint="Look.")

    monkeypatch.setattr(witness, "_open_pipe", fail)
    shared = witness.share(RUN, NUMBERS)
    for log in shared:
        with refused(ErrorId.HOST_NOT_ANSWERING, WitnessError, naming="no route"):
            log.open()
        log.close()
    assert tried == [1]
    witness.close()
