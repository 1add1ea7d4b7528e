"""The event loop in Python, and that with its inner round in C: the same cases on both.

A real session sends to a real server, through a relay that answers its inserts: so each
reply is one that a server, or whatever stands before it, might send.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from dbcheck.base.system import now_us
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load import loop as loop_module
from dbcheck.load.compiled import CompiledLoop, load_rounds, make_loop
from dbcheck.load.group import GroupResult
from dbcheck.load.loop import Loop
from dbcheck.load.sessions import Sessions
from dbcheck.ports.engine import Engine
from dbcheck.ports.witness import WitnessLog
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from tests.kit.insert_answers import (
    BOUND,
    CLOSE,
    COLUMNS,
    DONE,
    FAILED,
    IDLE,
    OPEN,
    Insert,
    InsertAnswers,
    Reply,
    ack,
    id_of,
    message,
    row_of,
    row_with_id,
    says,
    tag,
)
from tests.kit.operations import batches
from tests.kit.servers import engine_of
from tests.kit.waiting import wait_until
from tests.kit.witness_logs import FakeLog

pytestmark = pytest.mark.skipif(load_rounds() is None, reason="it was not compiled")

SCHEDULE = Schedule(seed=5, epoch=3, payload_bytes=(1, 300, 9000))
TRIED = 5  # the insert whose reply is the case's
LAST = 9  # the insert that is never answered
LOOKS = 20  # of the loop, a second in all, within which nothing new has come
MakeLoop = Callable[[Sessions, WitnessLog], Loop]


@dataclass(frozen=True)
class Told:
    """What a load tells of a case."""

    acks: tuple[tuple[int, int, int], ...]
    sent: dict[int, int]
    acked: dict[int, int]
    ends: tuple[object, ...]
    inserts: tuple[Insert, ...]


def tell(log: FakeLog, result: GroupResult, relay: InsertAnswers) -> Told:
    # The first operation reads settings, and so it is answered by the server.
    acks = tuple((a, seq, row if seq > 1 else 0) for a, seq, row, _ in log.acks)
    assert result.failure is None and result.witness_error is None
    return Told(
        acks,
        result.sent,
        result.acked,
        (
            [(gone.session, gone.in_flight, gone.farewell) for gone in result.breaks],
            result.replaced.sessions,
            (result.refused, result.refusals),
            (result.warned, result.warnings),
        ),
        tuple(relay.inserts),
    )


@pytest.fixture(scope="module")
def ledger(postgresql_server: DatabaseServer) -> Iterator[DatabaseServer]:
    engine = engine_of(postgresql_server)
    engine.drop()
    engine.prepare((LEDGER,))
    yield postgresql_server
    engine.drop()


@pytest.fixture(scope="module", autouse=True)
def one_look() -> Iterator[None]:
    """Have each session read its settings once: by the clock, cases would differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_module, "LOOK_US", 1 << 50)
        yield


def run(
    server: DatabaseServer,
    make: MakeLoop,
    answer: Callable[[Insert], Reply],
    last: int = LAST,
) -> Told:
    """Let one session commit until nothing more comes of it."""
    with InsertAnswers(server.port, answer) as relay:
        url = make_url(server.url).set(port=relay.port)
        engine = open_engine(url.render_as_string(False), server.password)
        log = FakeLog()
        sessions = Sessions(engine, engine.facts(), InsertPlan(SCHEDULE), None, 1)
        loop = make(sessions, cast(WitnessLog, log))
        seen: list[tuple[object, ...]] = []

        def is_over() -> bool:
            sent = relay.inserts and relay.inserts[-1].seq == last
            return bool(sent) or is_at_rest(loop, relay, log, seen)

        try:
            loop.connect()
            loop.start(now_us())
            wait_until(is_over, "it is over")
        finally:
            result = loop.end()
            log.close()
        return tell(log, result, relay)


def is_at_rest(
    loop: Loop, relay: InsertAnswers, log: FakeLog, seen: list[tuple[object, ...]]
) -> bool:
    """Return True once no session is left, or LOOKS snapshots show the same."""
    snapshot = loop.snapshot()
    if not loop._replacing and not snapshot.running:
        return True
    came = (len(relay.inserts), relay.pieces, len(log.acks))
    state = (*came, snapshot.running, loop._replacing)
    if seen and seen[-1][1:] != state:
        seen.clear()
    if not seen or seen[-1][0] != snapshot.clock_us:
        seen.append((snapshot.clock_us, *state))
    return bool(relay.inserts) and not loop._replacing and len(seen) > LOOKS


def answering(reply: Callable[[int, int], Reply]) -> Callable[[Insert], Reply]:
    """Answer one insert of the first session by *reply*, and not the last one."""

    def answer(insert: Insert) -> Reply:
        if (insert.session, insert.seq) == (1, TRIED):
            return reply(insert.session, insert.seq)
        return () if insert.seq == LAST else (ack(insert.session, insert.seq),)

    return answer


def compare(server: DatabaseServer, reply: Callable[[int, int], Reply]) -> Told:
    told = run(server, Loop, answering(reply))
    compiled = run(server, make_loop, answering(reply))
    assert compiled == told
    return told


def whole(*parts: bytes | None) -> Callable[[int, int], Reply]:
    """Send all at once, but for an end of the connection."""

    def reply(session: int, seq: int) -> Reply:
        sent = b"".join(part for part in parts if part is not CLOSE)
        return (sent, CLOSE) if CLOSE in parts else (sent,)

    return reply


NOTICE = says(b"N", "NOTICE", "00000", "by the way")
WARNING = says(b"N", "WARNING", "01000", "canceling wait for synchronous replication")
FULL = says(b"E", "ERROR", "53100", "no space")
UNKNOWN = says(b"E", "ERROR", "40003", "unknown")
BYE = says(b"E", "FATAL", "57P01", "terminating connection")
SET = message(b"S", b"TimeZone\0UTC\0")
HEARD = message(b"A", b"\0\0\0\1channel\0\0")
ROW = row_with_id(1, TRIED)
START = BOUND + COLUMNS

ACKED = {
    "ack": whole(START, ROW, DONE, IDLE),
    "after a setting": whole(SET, START, ROW, DONE, SET, IDLE),
    "after a notification": whole(START, ROW, HEARD, DONE, IDLE, HEARD),
    "after a notice": whole(NOTICE, START, ROW, DONE, IDLE),
    "before a notice": whole(START, ROW, DONE, IDLE, NOTICE),
    "in two pieces": lambda *_: (START + ROW[:7], ROW[7:] + DONE + IDLE),
    "without its end at first": lambda *_: (START + ROW + DONE, IDLE),
    "byte by byte": lambda *_: [bytes([b]) for b in START + ROW + DONE + IDLE],
    "with an id of four bytes": whole(START, row_of(b"\0\0\0\7"), DONE, IDLE),
    "with two rows": whole(START, ROW, ROW, DONE, IDLE),
}
NOT_ACKED = {
    "warned": whole(START, ROW, WARNING, DONE, IDLE),
    "warned at its end": whole(START, ROW, DONE, WARNING, IDLE),
    "warned in the same breath": whole(START, ROW, DONE, IDLE, WARNING),
    "refused": whole(FULL, IDLE),
    "refused late": whole(START, ROW, FULL, IDLE),
    "unknown": whole(UNKNOWN, IDLE),
    "farewell": whole(BYE, CLOSE),
    "farewell after the row": whole(START, ROW, BYE, CLOSE),
    "farewell without an end": whole(BYE),
    "closed": whole(CLOSE),
    "closed in the middle": whole(START, ROW, CLOSE),
    "closed before the end": whole(START, ROW, DONE, CLOSE),
    "rolled back": whole(START, ROW, tag(b"ROLLBACK"), IDLE),
    "no row inserted": whole(START, tag(b"INSERT 0 0"), IDLE),
    "two rows inserted": whole(START, ROW, tag(b"INSERT 0 2"), IDLE),
    "no id": whole(START, DONE, IDLE),
    "null": whole(START, row_of(None), DONE, IDLE),
    "no result": whole(BOUND, message(b"n"), DONE, IDLE),
    "transaction open": whole(START, ROW, DONE, OPEN),
    "transaction failed": whole(START, ROW, DONE, FAILED),
    "two results": whole(START, ROW, DONE, START, ROW, DONE, IDLE),
    "empty": whole(BOUND, message(b"I"), IDLE),
    "copy": whole(BOUND, message(b"G", b"\0\0\0"), IDLE),
    "idle alone": whole(IDLE),
    "not the protocol": whole(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "silence": whole(b""),
}


@pytest.mark.parametrize("name", ACKED)
def test_an_ack_is_one_for_both(ledger: DatabaseServer, name: str) -> None:
    told = compare(ledger, ACKED[name])
    assert (1, TRIED) in [ack[:2] for ack in told.acks]
    assert told.acked == {1: LAST - 1}


@pytest.mark.parametrize("name", NOT_ACKED)
def test_what_is_no_ack_is_none_for_both(ledger: DatabaseServer, name: str) -> None:
    told = compare(ledger, NOT_ACKED[name])
    assert (1, TRIED) not in [ack[:2] for ack in told.acks]
    assert told.acked[1] == TRIED - 1 and told.sent[1] == TRIED


PIECES = st.sampled_from(
    [
        *(START, BOUND, COLUMNS, ROW, DONE, IDLE, OPEN, FAILED),
        *(NOTICE, WARNING, FULL, UNKNOWN, BYE, SET, HEARD),
        *(tag(b"ROLLBACK"), tag(b"INSERT 0 0"), row_of(), row_of(None), row_of(b"\7")),
        message(b"n"),
        message(b"I"),
        b"\0",
    ]
)
AS_USUAL = (BOUND, COLUMNS, ROW, DONE, IDLE)


@st.composite
def replies(draw: st.DrawFn) -> list[bytes | None]:
    """Draw a reply as usual, with messages put in, left out, or put elsewhere."""
    parts = list(AS_USUAL) if draw(st.integers(0, 1)) else []
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(parts)))
        drops: bool = draw(st.booleans())
        if parts and drops:
            parts.pop(min(place, len(parts) - 1))
        else:
            parts.insert(place, draw(PIECES))
    data = b"".join(parts)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
    ends = zip([0, *cuts], [*cuts, len(data)], strict=True)
    pieces: list[bytes | None] = [data[start:end] for start, end in ends if start < end]
    return [*pieces, CLOSE] if draw(st.booleans()) else pieces


@settings(max_examples=20)
@given(replies())
def test_any_reply_means_the_same_to_both(
    ledger: DatabaseServer, reply: list[bytes | None]
) -> None:
    compare(ledger, lambda *_: reply)


def test_inserts_are_sent_as_the_schedule_has_them(ledger: DatabaseServer) -> None:
    """Also beyond the rows that are prepared at once."""
    told: list[Told] = []

    def answer(insert: Insert) -> Reply:
        return () if insert.seq == 600 else (ack(insert.session, insert.seq),)

    for make in (Loop, make_loop):
        told.append(run(ledger, make, answer, 600))
    assert told[0] == told[1]
    assert [one.seq for one in told[1].inserts] == list(range(2, 601))
    for insert in told[1].inserts:
        epoch, session, seq, part, content, checksum = SCHEDULE.values(1, insert.seq)
        numbers = struct.pack("!qiqhq", epoch, session, seq, part, checksum)
        *before, payload, last = insert.values
        assert b"".join([*before, last]) == numbers and payload == content
        assert (1, insert.seq, id_of(1, insert.seq)) in told[1].acks or (
            insert.seq == 600
        )


@pytest.mark.parametrize("make", [Loop, make_loop])
def test_what_is_acked_is_what_the_server_has(
    ledger: DatabaseServer, make: MakeLoop
) -> None:
    """Sixteen sessions, each of which goes through several batches."""
    engine: Engine = engine_of(ledger)
    engine.drop()
    engine.prepare((LEDGER,))
    log = FakeLog()
    schedule = Schedule(seed=9, epoch=4, payload_bytes=(1, 100, 40_000))
    sessions = Sessions(engine, engine.facts(), InsertPlan(schedule), None, 16)
    loop = make(sessions, cast(WitnessLog, log))
    assert isinstance(loop, CompiledLoop) == (make is make_loop)
    try:
        loop.connect()
        loop.start(now_us())
        wait_until(lambda: len(log.acks) >= 3000, "commits are acked")
        if isinstance(loop, CompiledLoop):
            assert len(loop._lent) > 8
    finally:
        result = loop.end()
        log.close()
    assert result.failure is None and not result.refusals and not result.breaks
    acked = {(session, seq): row_id for session, seq, row_id, _ in log.acks}
    stored = {(row.session, row.seq): row for each in batches(engine) for row in each}
    assert len(acked) == len(log.acks) == sum(result.acked.values())
    for key, row_id in acked.items():
        assert stored[key] == schedule.row(*key)._replace(row_id=row_id)
    assert set(stored) - set(acked) <= set(result.sent.items())


def test_rows_that_are_too_few_to_be_made_at_once_are_made_one_by_one(
    ledger: DatabaseServer,
) -> None:
    engine = engine_of(ledger)
    plan, facts = InsertPlan(Schedule(9, 4, (20_000,))), engine.facts()
    for count, kind in ((52, CompiledLoop), (53, Loop)):
        log = FakeLog()
        sessions = Sessions(engine, facts, plan, None, count)
        loop = make_loop(sessions, cast(WitnessLog, log))
        assert type(loop) is kind
        loop.end()
        log.close()
