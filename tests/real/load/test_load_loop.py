"""The event loop, with sessions and a log that answer at once or at a call."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    CommitUnknown,
    EngineError,
    LoadError,
    OtherServer,
    WitnessError,
)
from dbcheck.base.system import now_us
from dbcheck.load import load as load_module
from dbcheck.load import loop as loop_module
from dbcheck.load.group import GroupResult
from dbcheck.load.load import Load
from dbcheck.load.loop import Loop
from dbcheck.load.pace import Lease
from dbcheck.load.sessions import Sessions
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import Gone
from dbcheck.model.server import ServerFacts
from dbcheck.model.unobserved import GAP_US
from dbcheck.ports.connection import Session
from dbcheck.ports.engine import Engine
from dbcheck.ports.witness import WitnessLog
from dbcheck.rows.acks import HOUSEKEEPING_SESSION, AckValues
from dbcheck.rows.operation import Operation
from dbcheck.rows.schedule import Schedule
from tests.kit.interrupts import main as main
from tests.kit.operations import CLASSICS, INSERTS
from tests.kit.refusals import refused
from tests.kit.tasks import PLAN
from tests.kit.threads import threads_named
from tests.kit.waiting import wait_until
from tests.kit.witness_logs import NEVER_S, FakeLog

SCHEDULE = Schedule(1, 2, (10,))
FACTS = ServerFacts("Fake", "1", {"id": "1"}, 10, 1, 10, {})
LAST = 50  # operation that a session of these tests does not answer

Answer = Callable[[Operation], int]


class FakeSession:
    """Replies with what *answer* returns or raises; 0 is silence."""

    def __init__(self, server: FakeServer, answer: Answer) -> None:
        self._server, self._answer = server, answer
        self._replies: deque[int | Exception] = deque()
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK)
        self.unsent = 0

    def fileno(self) -> int:
        return self._alarm

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        self._server.sent.append(operation)
        try:
            if row_id := self._answer(operation):
                self.reply(row_id)
        except EngineError as error:
            self.reply(error)
        return not self.unsent

    def settings(self) -> Mapping[str, str]:
        return {}

    def flush(self) -> bool:
        self.unsent -= 1
        return not self.unsent

    def reply(self, reply: int | Exception) -> None:
        self._replies.append(reply)
        os.eventfd_write(self._alarm, 1)

    def receive(self) -> int | None:
        if not self._replies:
            return None
        os.eventfd_read(self._alarm)
        reply = self._replies.popleft()
        self._server.received_us = now_us()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        self._server.open.remove(self)
        os.close(self._alarm)


class FakeServer:
    """An engine whose sessions answer as *answer* says."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.facts_now: ServerFacts | None = FACTS
        self.sent: list[Operation] = []
        self.open: list[FakeSession] = []
        self.received_us = 0

    def open_session(self, *_: Any, **options: Any) -> Session:
        self.open.append(FakeSession(self, self.answer))
        return self.open[-1]

    def facts(self) -> ServerFacts:
        if self.facts_now is None:
            raise EngineError("refused", id=ErrorId.STATEMENT_FAILED)
        return self.facts_now


class Site:
    """A loop with its server and its log."""

    def __init__(
        self, server: FakeServer, log: FakeLog, count: int, **more: Any
    ) -> None:
        self.server, self.log = server, log
        plan, lease = more.pop("plan", INSERTS), more.pop("lease", None)
        sessions = Sessions(cast(Engine, server), FACTS, plan, None, count, **more)
        self.loop = Loop(sessions, cast(WitnessLog, log), lease)

    def run(self, until: Callable[[], bool]) -> GroupResult:
        """Let the sessions commit until something is so."""
        self.start()
        wait_until(until, "it has come so far")
        return self.loop.end()

    def start(self) -> None:
        self.loop.connect()
        self.loop.start(now_us())


Make = Callable[..., Site]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make sites; nothing of them may be left."""
    sites: list[Site] = []

    def made(answer: Answer, count: int = 3, **more: Any) -> Site:
        log = more.pop("log", None) or FakeLog()
        sites.append(Site(FakeServer(answer), log, count, **more))
        return sites[-1]

    yield made
    for site in sites:
        site.loop.end()
        assert site.server.open == []
        site.log.close()
    wait_until(
        lambda: not threads_named("load"),
        "the loop's thread is gone, which end() does not wait for",
    )
    assert threads_named("session") == []


def until_last(row: Operation) -> int:
    return row.seq if row.seq < LAST else 0


def test_sessions_whose_lease_is_over_send_nothing_more(make: Make) -> None:
    """And take what was answered before that."""
    lease = Lease()
    site = make(lambda row: 1, lease=lease)
    site.start()
    wait_until(lambda: len(site.log.acks) > 10, "they commit")
    lease.until_us = 0
    wait_until(lambda: site.loop.snapshot().failed, "the lease ends the load")
    sent = len(site.server.sent)
    result = site.loop.end()
    assert isinstance(result.failure, LoadError)
    assert "no news of the client" in str(result.failure)
    assert len(site.server.sent) == sent == sum(result.sent.values())
    assert site.server.open == []


def test_each_session_commits_one_after_the_other(make: Make) -> None:
    site = make(until_last)
    result = site.run(lambda: len(site.log.acks) == 3 * (LAST - 1))
    assert result.sent == dict.fromkeys((1, 2, 3), LAST)
    assert result.acked == dict.fromkeys((1, 2, 3), LAST - 1)
    for number in (1, 2, 3):
        acks = [ack[1] for ack in site.log.acks if ack[0] == number]
        rows = [row for row in site.server.sent if row.session == number]
        assert acks == list(range(1, LAST))
        assert rows == [INSERTS.operation(number, n) for n in range(1, LAST + 1)]
    assert all(row_id == seq for _, seq, row_id, _ in site.log.acks)
    look = site.loop.snapshot()
    assert (look.running, look.waiting, look.acked) == (0, 0, 3 * (LAST - 1))
    assert look.last_ack_us == site.log.acks[-1][3]


def test_no_ack_is_older_than_its_reply(make: Make) -> None:
    site = make(until_last)
    appended = site.log.append_many

    def append_many(acks: Sequence[AckValues]) -> None:
        assert all(site.server.received_us <= ack[3] <= now_us() for ack in acks)
        appended(acks)

    site.log.append_many = append_many  # type: ignore[method-assign]
    result = site.run(lambda: len(site.log.acks) == 3 * (LAST - 1))
    assert result.failure is None


def test_a_window_is_never_overrun_and_opens_again(make: Make) -> None:
    site = make(until_last, log=FakeLog(2))
    site.start()
    for so_far in range(2, 3 * (LAST - 1), 2):
        wait_until(lambda so_far=so_far: len(site.log.acks) == so_far, "acks")  # type: ignore[misc]
        assert len(site.server.sent) == so_far
        site.log.confirm()
    assert site.loop.end().failure is None


def test_in_lockstep_a_session_waits_for_its_own_ack(make: Make) -> None:
    site = make(lambda row: row.seq, log=FakeLog(lockstep=True))
    site.start()
    for so_far in range(3, 30, 3):
        wait_until(lambda so_far=so_far: len(site.log.acks) == so_far, "acks")  # type: ignore[misc]
        assert len(site.server.sent) == so_far
        site.log.confirm()
    assert site.loop.end().failure is None


def require_rest(site: Site) -> None:
    """Fail if the loop has many more rounds than looks at its sessions."""
    seen: set[int] = set()
    asked = site.log.asked

    def looked() -> bool:
        seen.add(site.loop.snapshot().clock_us)
        return len(seen) > 10

    wait_until(looked, "looks at the sessions")
    assert site.log.asked - asked <= 2 * len(seen)


@pytest.mark.parametrize("lockstep", [False, True])
def test_a_loop_that_waits_for_the_log_rests(make: Make, lockstep: bool) -> None:
    """The threads that bring the confirmations need the interpreter."""
    log = FakeLog(10**6 if lockstep else 2, lockstep=lockstep)
    site = make(lambda row: row.seq, log=log)
    site.start()
    wait_until(lambda: len(log.acks) == (3 if lockstep else 2), "acks")
    require_rest(site)


@pytest.mark.parametrize("lockstep", [False, True])
def test_a_confirmation_wakes_the_loop(
    make: Make, monkeypatch: pytest.MonkeyPatch, lockstep: bool
) -> None:
    count = 3 if lockstep else 2
    log = FakeLog(10**6 if lockstep else count, lockstep=lockstep)
    site = make(lambda row: row.seq, log=log)
    site.start()
    wait_until(lambda: len(log.acks) == count, "acks")
    monkeypatch.setattr(loop_module, "SNAPSHOT_S", NEVER_S)
    for so_far in range(count, 300, count):
        wait_until(lambda so_far=so_far: len(log.acks) == so_far, "acks")  # type: ignore[misc]
        log.confirm()


def test_room_for_more_than_what_is_in_flight_wakes_the_loop(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session gets no reply, and the room that is left is for its ack."""
    log = FakeLog(2)
    site = make(lambda row: 0 if row.session == 2 else row.seq, log=log)
    site.start()
    wait_until(lambda: len(log.acks) == 1, "an ack")
    monkeypatch.setattr(loop_module, "SNAPSHOT_S", NEVER_S)
    for so_far in range(1, 100):
        wait_until(lambda so_far=so_far: len(log.acks) == so_far, "acks")  # type: ignore[misc]
        log.confirm()


def test_a_rate_that_the_log_holds_back_lets_the_loop_rest(make: Make) -> None:
    log = FakeLog(1)
    site = make(lambda row: row.seq, log=log, rate=1e6)
    site.start()
    wait_until(lambda: len(log.acks) == 1, "an ack")
    require_rest(site)


def test_what_cannot_be_sent_at_once_is_flushed(make: Make) -> None:
    def answer(row: Operation) -> int:
        site.server.open[0].unsent = 2
        return until_last(row)

    site = make(answer, 1)
    result = site.run(lambda: len(site.log.acks) == LAST - 1)
    assert result.failure is None


def broken(row: Operation) -> int:
    raise CommitUnknown("broke", farewell="shutting down", id=ErrorId.COMMIT_UNKNOWN)


def test_a_broken_session_is_replaced_under_a_new_number(make: Make) -> None:
    site = make(
        lambda row: broken(row) if (row.session, row.seq) == (2, 5) else until_last(row)
    )
    result = site.run(lambda: len(site.log.acks) == 3 * (LAST - 1) + 4)
    assert result.sent == {1: LAST, 2: 5, 3: LAST, 4: LAST}
    assert result.acked == {1: LAST - 1, 2: 4, 3: LAST - 1, 4: LAST - 1}
    assert result.breaks == []


def test_every_session_must_reach_the_server_that_the_load_began_with(
    make: Make,
) -> None:
    """Replacements too; one that reached another server is never used."""
    site = make(lambda row: broken(row) if row.seq == 5 else row.seq)
    opened, asked = site.server.open_session, list[Any]()

    def open_session(*_: Any, **options: Any) -> Session:
        asked.append(options["server"])
        if len(asked) > 3:
            raise OtherServer(
                "it started 1 s later", id=ErrorId.DIFFERENT_SERVERS_ANSWER
            )
        return opened(())

    site.server.open_session = open_session  # type: ignore[method-assign]
    result = site.run(lambda: site.loop.snapshot().running == 0)
    assert asked == [FACTS] * 6
    assert result.sent == dict.fromkeys((1, 2, 3), 5)
    assert (len(result.breaks), result.refusals) == (3, [])


@pytest.mark.parametrize("now", [None, ServerFacts("Fake", "1", {}, 9, 1, 9, {})])
def test_another_server_is_not_written_to(make: Make, now: ServerFacts | None) -> None:
    site = make(lambda row: broken(row) if row.seq == 5 else row.seq)
    site.server.facts_now = now
    load = Load([site.loop], 60)
    load.begin()
    wait_until(load.poll, "the end")
    assert (load.gone, load.in_flight) == (Gone.BROKEN, 3)
    assert load.result.sent == {1: 5, 2: 5, 3: 5}
    assert load.farewells == ["shutting down"]
    assert load.lost_early == []
    assert load.gone_us >= max(ack[3] for ack in site.log.acks)


def test_a_classic_load_is_never_continued(make: Make) -> None:
    site = make(broken, plan=CLASSICS)
    result = site.run(lambda: site.loop.snapshot().running == 0)
    assert (len(result.breaks), result.sent) == (3, {1: 1, 2: 1, 3: 1})


def test_a_session_that_ends_while_others_go_on_does_not_date_the_end(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor has the server shut down, whatever it wrote to that session."""
    monkeypatch.setattr(load_module, "EARLY_US", 0)
    site = make(
        lambda row: broken(row) if row.session == 1 else until_last(row), plan=CLASSICS
    )
    load = Load([site.loop], 60)
    load.begin()
    wait_until(lambda: len(site.log.acks) == 2 * (LAST - 1), "the acks of the others")
    for session in list(site.server.open):
        session.reply(CommitUnknown("broke", id=ErrorId.COMMIT_UNKNOWN))
    wait_until(load.poll, "the end")
    assert (load.gone, load.in_flight) == (Gone.BROKEN, 2)
    assert load.gone_us >= max(ack[3] for ack in site.log.acks)
    assert (load.farewells, load.lost_early) == ([], [1])


def test_a_session_that_breaks_while_it_waits_for_the_log_held_nothing_in_flight(
    make: Make,
) -> None:
    site = make(lambda row: row.seq, 1, log=FakeLog(1), plan=CLASSICS)
    site.start()
    wait_until(lambda: len(site.log.acks) == 1, "an ack")
    site.server.open[0].reply(CommitUnknown("broke", id=ErrorId.COMMIT_UNKNOWN))
    wait_until(lambda: site.loop.snapshot().running == 0, "the end")
    result = site.loop.end()
    assert [one.in_flight for one in result.breaks] == [False]


@pytest.mark.parametrize(("young_us", "in_flight"), [(60_000_000, True), (0, False)])
@pytest.mark.parametrize("lockstep", [True, False])
def test_a_session_that_breaks_while_it_waits_for_its_turn_was_not_idle(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    young_us: int,
    in_flight: bool,
    lockstep: bool,
) -> None:
    monkeypatch.setattr(loop_module, "_YOUNG_US", young_us)
    log, rate = FakeLog(lockstep=lockstep), 0.0 if lockstep else 0.01
    site = make(lambda row: row.seq, 1, log=log, plan=CLASSICS, rate=rate)
    site.start()
    wait_until(lambda: len(site.log.acks) == 1, "an ack")
    site.server.open[0].reply(CommitUnknown("broke", id=ErrorId.COMMIT_UNKNOWN))
    wait_until(lambda: site.loop.snapshot().running == 0, "the end")
    result = site.loop.end()
    assert [one.in_flight for one in result.breaks] == [in_flight]


def test_a_task_that_broke_shows_no_silence_of_the_server(make: Make) -> None:
    """A gap in which no commit was in flight hides when the silence began."""
    tasks: list[int] = []
    waited: list[int] = []

    def answer(row: Operation) -> int:
        if row.session == HOUSEKEEPING_SESSION:
            tasks.append(row.session)
            raise CommitUnknown("broke", id=ErrorId.COMMIT_UNKNOWN)
        if tasks and len(site.server.open) == 1 and not waited:
            waited.append(now_us())
            wait_until(lambda: now_us() - waited[0] > 2 * GAP_US, "a gap")
            return 0
        return 1

    site = make(answer, 1, plan=PLAN, has_housekeeping=True)

    def is_noted() -> bool:
        return bool(waited) and site.loop.snapshot().clock_us > waited[0] + 2 * GAP_US

    result = site.run(is_noted)
    assert [one.in_flight for one in result.breaks] == [True]
    assert [gap.in_flight for gap in result.observed.gaps] == [0]


def test_a_refused_session_ends_and_is_no_broken_one(make: Make) -> None:
    def answer(row: Operation) -> int:
        raise EngineError(f"no room {row.session}", id=ErrorId.STATEMENT_FAILED)

    site = make(answer)
    result = site.run(lambda: site.loop.snapshot().running == 0)
    assert sorted(result.refusals) == ["no room 1", "no room 2", "no room 3"]
    assert (result.breaks, sorted(result.refused)) == ([], [1, 2, 3])


def test_a_log_that_fails_ends_the_load(make: Make) -> None:
    site = make(lambda row: row.seq)
    site.log.error = WitnessError("gone", id=ErrorId.WITNESS_NOT_CONFIRMING)
    result = site.run(lambda: site.loop.snapshot().failed)
    assert result.witness_error is site.log.error


def test_a_defect_ends_the_load_and_is_not_swallowed(make: Make) -> None:
    site = make(lambda row: 1 // (row.seq - 3))
    result = site.run(lambda: site.loop.snapshot().failed)
    assert isinstance(result.failure, ZeroDivisionError)


def test_a_session_that_cannot_connect_leaves_none_open(make: Make) -> None:
    site = make(until_last)
    opened = site.server.open_session

    def open_session(*_: Any, **options: Any) -> Session:
        if len(site.server.open) == 2:
            raise EngineError("too many connections", id=ErrorId.STATEMENT_FAILED)
        return opened(())

    site.server.open_session = open_session  # type: ignore[method-assign]
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="too many"):
        site.loop.connect()
    assert site.server.open == []


def test_a_session_that_cannot_be_watched_leaves_none_open(make: Make) -> None:
    site = make(until_last)
    opened = site.server.open_session

    def open_session(*_: Any, **options: Any) -> Session:
        session = opened(())
        session.fileno = site.server.open[0].fileno  # type: ignore[method-assign]
        return session

    site.server.open_session = open_session  # type: ignore[method-assign]
    with pytest.raises(FileExistsError, match="File exists"):
        site.loop.connect()
    assert site.server.open == []


class Gate:
    """Holds back whoever opens a session of *server*, after so many of them."""

    def __init__(self, server: FakeServer, free: int) -> None:
        self.reached, self.free = threading.Event(), threading.Event()
        opened = server.open_session

        def open_session(*_: Any, **options: Any) -> Session:
            nonlocal free
            free -= 1
            if free < 0:
                self.reached.set()
                assert self.free.wait(60)
            return opened(())

        server.open_session = open_session  # type: ignore[method-assign]


def test_a_load_that_ends_while_it_connects_leaves_no_session(make: Make) -> None:
    """After an interrupt: the thread that connects is another one than that."""
    site = make(until_last)
    gate = Gate(site.server, 1)
    connecting = threading.Thread(target=site.loop.connect)
    ending = threading.Thread(target=site.loop.end)
    connecting.start()
    assert gate.reached.wait(60)
    ending.start()
    ending.join(0.2)  # it waits for the other thread
    gate.free.set()
    connecting.join()
    ending.join()
    assert site.server.open == []
    assert len(site.server.sent) == 0


def test_an_interrupt_while_a_session_is_replaced_leaves_none_open(
    make: Make, main: int
) -> None:
    """Python then takes the thread that connects it for ended (bpo-45274)."""

    def answer(row: Operation) -> int:
        if row.session == 1:
            raise CommitUnknown("the connection broke", id=ErrorId.COMMIT_UNKNOWN)
        return until_last(row)

    site = make(answer)
    gate = Gate(site.server, 3)
    site.start()
    assert gate.reached.wait(60)

    def interrupt() -> None:
        wait_until(lambda: site.loop._connecting._shutdown, "the end waits")
        signal.pthread_kill(main, signal.SIGUSR1)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        site.loop.end()
    ending = threading.Thread(target=site.loop.end)
    ending.start()
    ending.join(0.2)  # it waits where Python knows that the thread lives
    gate.free.set()
    ending.join()
    interrupting.join()
    wait_until(lambda: not threads_named("session"), "the thread that connects ended")
    assert site.server.open == []


def test_an_end_that_was_interrupted_can_be_called_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make(until_last)
    site.start()
    wait_until(lambda: len(site.log.acks) == 3 * (LAST - 1), "acks")
    alarm = site.loop._alarm
    close = alarm.close

    def interrupted() -> None:
        close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(alarm, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            site.loop.end()
    assert site.loop.end().sent.keys() == {1, 2, 3}


def test_a_ramp_begins_with_one_session(make: Make) -> None:
    site = make(until_last, ramp_s=86_400.0)
    result = site.run(lambda: len(site.log.acks) == LAST - 1)
    assert result.sent == {1: LAST}


def test_a_rate_holds_for_all_sessions_together(make: Make) -> None:
    site = make(lambda row: row.seq, rate=1e-3)
    result = site.run(lambda: len(site.log.acks) == 1)
    assert sum(result.sent.values()) == 1


def test_parts_of_a_team_share_sessions_and_rate_and_no_number() -> None:
    sessions = Sessions(
        cast(Engine, None), FACTS, INSERTS, Weakens.FLUSH, 7, rate=90.0, ramp_s=2.0
    )
    parts = sessions.split(3)
    shared = [(part.plan, part.weakens, part.ramp_s) for part in parts]
    assert shared == [(INSERTS, Weakens.FLUSH, 2.0)] * 3
    assert [part.count for part in parts] == [3, 2, 2]
    numbers = [
        number
        for part in parts
        for number, _ in zip(part.numbers(), range(part.count), strict=False)
    ]
    assert sorted(numbers) == list(range(1, 8))
    assert [next(iter(part.numbers())) for part in parts] == [1, 2, 3]
    assert sum(part.rate for part in parts) == 90.0
