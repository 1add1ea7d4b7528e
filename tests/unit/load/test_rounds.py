"""The part of the loop in C, over a libpq that answers as these tests say."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dbcheck.engines.postgresql.direct import NAMES
from dbcheck.load import compiled
from dbcheck.load.compiled import load_rounds
from dbcheck.rows.acks import AckValues

if TYPE_CHECKING:
    from dbcheck.load._rounds import Rounds

HERE = Path(compiled.__file__)
BUILT = list(HERE.parent.glob("_rounds.*.so"))
TAG, ID = b"INSERT 0 1", 5
DESCRIPTORS = 150  # more than one call takes
SENT_US, READ_US, NEVER_US = 1000, 1700, 1 << 60

needs_c = pytest.mark.skipif(load_rounds() is None, reason="it was not compiled")


@pytest.mark.skipif(not BUILT, reason="it was not compiled")
def test_what_is_tested_was_built_from_this_source() -> None:
    assert load_rounds() is not None, "make extension"


@needs_c
def test_what_was_built_from_another_source_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rules of an ack may be older."""
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / HERE.name))
    assert load_rounds() is not None  # installed, and so without the source
    source = Path(shutil.copy(HERE.with_name("_rounds.c"), tmp_path))
    assert load_rounds() is not None
    with source.open("a") as file:
        file.write("\n")
    assert load_rounds() is None


@needs_c
def test_what_would_not_fit_is_refused() -> None:
    """Nothing of it reaches libpq."""
    kind, calls = load_rounds(), bytes(ctypes.sizeof(ctypes.c_void_p) * len(NAMES))
    assert kind is not None
    for wrong in ((-1, calls[8:], b"s", b"t", 6), (-1, calls, b"s", b"t" * 64, 6)):
        with pytest.raises(ValueError, match="cannot be sent here"):
            kind(*wrong)
    with pytest.raises(ValueError, match="cannot be sent here"):
        kind(-1, calls, b"s", b"t", 17)
    rounds = kind(-1, calls, b"s", b"t", 1)
    rounds.add(300, 0, 1)
    with pytest.raises(ValueError, match="cannot be added"):
        rounds.add(300, 0, 1)
    for place, length in ((0, 4), (-1, 1), (3, 1), (1, -1), (2**62, 2**62)):
        with pytest.raises(ValueError, match="no values of whole rows"):
            rounds.prepare(300, 1, struct.pack("qq", place, length), b"abc")
    rounds.prepare(300, 1, struct.pack("qq", 0, 3), b"abc")
    assert rounds.progress(300) == (0, 0, 0, False)
    assert rounds.send([300], 0) == [(300, kind.NOT_HERE)]
    rounds.proceed(300, 5, 1)
    assert rounds.withdraw(300) == (5, 5, 0, False)
    rounds.remove(300)
    for fd in (300, 10**6, -1):
        with pytest.raises(KeyError, match="no session has this descriptor"):
            rounds.progress(fd)


class FakeLibpq:
    """Functions of libpq; each reply is one row with an id, unless told otherwise.

    A connection is the reading end of a pipe, and readable once its reply has come.
    """

    def __init__(self) -> None:
        self.returned: dict[str, int] = {}  # by function, in place of what it returns
        self.ended: set[int] = set()  # connections whose reply is read
        self.on_read: Callable[[int], None] = lambda connection: None
        self._tag = ctypes.create_string_buffer(TAG)
        self._id = ctypes.create_string_buffer(struct.pack("!q", ID), 8)
        self._functions = [self._make(name) for name in NAMES]
        addresses = [ctypes.cast(each, ctypes.c_void_p) for each in self._functions]
        self.calls = b"".join(struct.pack("N", each.value) for each in addresses)

    def _make(self, name: str) -> Any:
        """Make a function in C; of its arguments only the first matters."""

        def call(first: int | None) -> int:
            found: int = getattr(self, name, lambda _: 0)(first or 0)
            return self.returned.get(name, found)

        return ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p)(call)

    def PQconsumeInput(self, connection: int) -> int:
        os.read(connection, 1)
        self.on_read(connection)
        return 1

    def PQgetResult(self, connection: int) -> int:
        ended = connection in self.ended
        self.ended ^= {connection}
        return 0 if ended else 1

    def PQcmdStatus(self, _: int) -> int:
        return ctypes.addressof(self._tag)

    def PQntuples(self, _: int) -> int:
        return 1

    PQnfields = PQntuples
    PQsendQueryPrepared = PQntuples

    def PQgetlength(self, _: int) -> int:
        return 8

    def PQgetvalue(self, _: int) -> int:
        return ctypes.addressof(self._id)


class Sessions:
    """Sessions whose first operation is sent; the reading ends of pipes."""

    def __init__(self, count: int) -> None:
        kind = load_rounds()
        assert kind is not None
        self.libpq, self._poller = FakeLibpq(), select.epoll()
        self.rounds: Rounds = kind(
            self._poller.fileno(), self.libpq.calls, b"insert", TAG, 1
        )
        self._pipes = [os.pipe() for _ in range(count)]
        self.fds = [reader for reader, _ in self._pipes]
        for number, fd in enumerate(self.fds):
            self._poller.register(fd, select.EPOLLIN)
            self.rounds.add(fd, fd, number)
            self.rounds.prepare(fd, 1, struct.pack("qq", 0, 3), b"abc")
            self.rounds.proceed(fd, 0, NEVER_US)

    def reply(self) -> None:
        for _, writer in self._pipes:
            os.write(writer, b"!")

    def close(self) -> None:
        self._poller.close()
        for fd in (end for pipe in self._pipes for end in pipe):
            os.close(fd)


@pytest.fixture
def sessions(request: pytest.FixtureRequest) -> Iterator[Sessions]:
    made = Sessions(getattr(request, "param", 1))
    yield made
    made.close()


@needs_c
@pytest.mark.parametrize("sessions", [DESCRIPTORS], indirect=True)
def test_more_replies_than_one_call_takes_are_acked_in_the_next(
    sessions: Sessions,
) -> None:
    rounds = sessions.rounds
    acks: list[AckValues] = []
    assert rounds.send(sessions.fds, SENT_US) == []
    sessions.reply()
    while len(acks) < DESCRIPTORS:
        taken, others = rounds.receive(0)
        assert 0 < len(taken) <= 64 and not others
        made, durations, sent_us = rounds.acknowledge(READ_US)
        assert durations == [READ_US - SENT_US] * len(taken) and sent_us == SENT_US
        acks += made
    assert sorted(acks) == [(n, 1, ID, READ_US) for n in range(DESCRIPTORS)]
    assert rounds.receive(0) == ([], [])
    assert rounds.acknowledge(READ_US) == ([], [], 0)


@needs_c
@pytest.mark.parametrize("sessions", [DESCRIPTORS], indirect=True)
def test_each_session_that_is_not_to_send_is_told(sessions: Sessions) -> None:
    rounds = sessions.rounds
    for fd in sessions.fds[::2]:
        rounds.notice(fd)
    left = rounds.send(sessions.fds, SENT_US)
    assert left == [(fd, rounds.NOT_HERE) for fd in sessions.fds[::2]]
    assert rounds.progress(sessions.fds[1]) == (1, 0, SENT_US, True)


@needs_c
@pytest.mark.parametrize(
    ("function", "returned", "how"),
    [
        ("PQsendQueryPrepared", 0, "REFUSED"),
        ("PQflush", -1, "REFUSED"),
        ("PQflush", 1, "PART_SENT"),
    ],
)
def test_an_operation_that_was_perhaps_sent_is_in_flight(
    sessions: Sessions, function: str, returned: int, how: str
) -> None:
    """Its row may be there, whatever libpq says."""
    rounds, (fd,) = sessions.rounds, sessions.fds
    sessions.libpq.returned[function] = returned
    assert rounds.send([fd], SENT_US) == [(fd, getattr(rounds, how))]
    assert rounds.withdraw(fd) == (1, 0, SENT_US, True)
    assert rounds.withdraw(fd) == (1, 0, SENT_US, False)  # it is the session's now


@needs_c
def test_values_are_sent_once_each(sessions: Sessions) -> None:
    rounds, (fd,) = sessions.rounds, sessions.fds
    for seq, row in ((0, []), (1, [(fd, rounds.NO_ROW)]), (-1, [(fd, rounds.NO_ROW)])):
        rounds.proceed(fd, seq, NEVER_US)
        assert rounds.send([fd], SENT_US) == row
    rounds.proceed(fd, 0, SENT_US)
    assert rounds.send([fd], SENT_US) == [(fd, rounds.NOT_HERE)]
    assert rounds.send([fd], SENT_US - 1) == []
    assert rounds.send([fd], SENT_US - 1) == [(fd, rounds.NOT_HERE)]  # in flight


NOT_ACKS = {
    "PQisBusy": (1, 0),
    "PQtransactionStatus": (2, 1),
    "PQntuples": (2, 1),
    "PQnfields": (0, 1),
    "PQgetisnull": (1, 1),
    "PQgetlength": (4, 1),
    "PQconsumeInput": (0, 0),
}


@needs_c
@pytest.mark.parametrize("function", NOT_ACKS)
def test_what_is_not_the_usual_reply_is_for_the_session(
    sessions: Sessions, function: str
) -> None:
    """It is acked nowhere, and what was taken of it is told."""
    rounds, (fd,) = sessions.rounds, sessions.fds
    returned, results = NOT_ACKS[function]
    sessions.libpq.returned[function] = returned
    rounds.send([fd], SENT_US)
    sessions.reply()
    taken, [(other, events, answers)] = rounds.receive(0)
    assert (taken, other, events) == ([], fd, select.EPOLLIN)
    assert answers is not None and len(answers) == results
    assert rounds.acknowledge(READ_US)[0] == []
    assert rounds.withdraw(fd) == (1, 0, SENT_US, True)


@needs_c
def test_a_notice_within_the_reply_is_for_the_session(sessions: Sessions) -> None:
    """libpq calls back while the reply is read."""
    rounds, (fd,) = sessions.rounds, sessions.fds
    sessions.libpq.on_read = rounds.notice
    rounds.send([fd], SENT_US)
    sessions.reply()
    taken, others = rounds.receive(0)
    assert taken == [] and len(others) == 1


@needs_c
def test_nothing_else_is_allowed_within_a_round(sessions: Sessions) -> None:
    """A connection would be freed while it is read."""
    rounds, (fd,) = sessions.rounds, sessions.fds
    refused: list[int] = []

    def try_all(connection: int) -> None:
        for call in (
            lambda: rounds.remove(connection),
            lambda: rounds.proceed(connection, 7, NEVER_US),
            lambda: rounds.receive(0),
            lambda: rounds.send([connection], 0),
        ):
            with pytest.raises(RuntimeError, match="a round is under way"):
                call()
            refused.append(connection)

    sessions.libpq.on_read = try_all
    rounds.send([fd], SENT_US)
    sessions.reply()
    assert rounds.receive(0) == ([fd], [])
    assert refused == [fd] * 4


@needs_c
def test_an_ack_of_a_session_that_was_removed_is_refused(sessions: Sessions) -> None:
    rounds, (fd,) = sessions.rounds, sessions.fds
    rounds.send([fd], SENT_US)
    sessions.reply()
    assert rounds.receive(0) == ([fd], [])
    rounds.remove(fd)
    with pytest.raises(KeyError, match="no session has this descriptor"):
        rounds.acknowledge(READ_US)
    rounds.add(fd, fd, 9)  # a new session may have its descriptor
    assert rounds.progress(fd) == (0, 0, 0, False)
