"""The FUSE protocol, spoken to by a test in the kernel's place."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator

import pytest

from dbcheck.lab.drive.fuse import FuseDrive
from dbcheck.lab.drive.model import Drive, DriveState
from dbcheck.lab.spec import DriveSpec

SIZE = 1 << 20
FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS = 2, 3, 4, 14, 15, 16, 17
FSYNC, GETXATTR, INIT, INTERRUPT, FALLOCATE = 20, 22, 26, 36, 43
LOOKUP = 1


class Kernel:
    """The other end of /dev/fuse, and the drive's clock."""

    def __init__(self, **spec: float | str | int) -> None:
        self.now = 100.0
        self._socket, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
        )
        self._theirs = theirs
        values = {"size_bytes": SIZE, "flush_ms": 0.0, **spec}
        self.drive = Drive(DriveSpec(**values))  # type: ignore[arg-type]
        self.front = FuseDrive(theirs.fileno(), self.drive, clock=lambda: self.now)
        self._unique = 0

    def ask(self, opcode: int, body: bytes = b"") -> int:
        """Send one request and have it served; return its number."""
        self._unique += 1
        header = struct.pack(
            "=IIQQIIIHH", 40 + len(body), opcode, self._unique, 1, 0, 0, 0, 0, 0
        )
        self._socket.send(header + body)
        assert self.front.serve()
        return self._unique

    def answers(self) -> dict[int, tuple[int, bytes]]:
        """Return the answers since the last call: number -> (errno, content)."""
        found: dict[int, tuple[int, bytes]] = {}
        while True:
            try:
                message = self._socket.recv(SIZE)
            except BlockingIOError:
                return found
            length, error, unique = struct.unpack_from("=IiQ", message)
            assert length == len(message)
            found[unique] = (-error, message[16:])

    def answer(self, opcode: int, body: bytes = b"") -> tuple[int, bytes]:
        """Send one request; return its answer, which must come at once."""
        unique = self.ask(opcode, body)
        return self.answers()[unique]

    def write(self, offset: int, content: bytes) -> int:
        return self.ask(WRITE, transfer(offset, len(content)) + content)

    def read(self, offset: int, size: int) -> bytes:
        error, content = self.answer(READ, transfer(offset, size))
        assert error == 0
        return content

    def close(self) -> None:
        self._socket.close()
        self._theirs.close()


def transfer(offset: int, size: int) -> bytes:
    return struct.pack("=QQIIQII", 0, offset, size, 0, 0, 0, 0)


def fallocate(offset: int, length: int, mode: int) -> bytes:
    return struct.pack("=QQQII", 0, offset, length, mode, 0)


def flush() -> bytes:
    return struct.pack("=QII", 0, 0, 0)


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    found = Kernel(**getattr(request, "param", {}))
    yield found
    found.close()


def with_spec(**spec: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kernel", [spec], indirect=True, ids=[str(spec)])


def test_what_was_written_is_read(kernel: Kernel) -> None:
    assert kernel.write(700, b"hello") in kernel.answers()
    assert kernel.read(699, 7) == b"\0hello\0"


def test_a_read_over_the_end_is_short(kernel: Kernel) -> None:
    assert kernel.read(SIZE - 3, 100) == b"\0\0\0"
    assert kernel.read(SIZE + 5, 100) == b""


def test_a_write_is_answered_with_its_size(kernel: Kernel) -> None:
    unique = kernel.write(0, bytes(4096))
    assert kernel.answers() == {unique: (0, struct.pack("=II", 4096, 0))}


def test_a_write_over_the_end_has_no_space(kernel: Kernel) -> None:
    unique = kernel.write(SIZE - 2, b"abc")
    assert kernel.answers() == {unique: (errno.ENOSPC, b"")}
    assert kernel.read(SIZE - 2, 2) == b"\0\0"


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        pytest.param(WRITE, transfer(0, 512) + b"short", id="less content than said"),
        pytest.param(WRITE, b"123", id="write"),
        pytest.param(READ, b"", id="read"),
        pytest.param(FALLOCATE, b"12345678", id="fallocate"),
        pytest.param(INIT, b"", id="init"),
    ],
)
def test_a_request_that_is_too_short_is_invalid(
    kernel: Kernel, opcode: int, body: bytes
) -> None:
    assert kernel.answer(opcode, body) == (errno.EINVAL, b"")


@pytest.mark.parametrize(
    ("opcode", "body", "number"),
    [
        pytest.param(LOOKUP, b"name\0", errno.ENOTDIR, id="lookup in a file"),
        pytest.param(GETXATTR, bytes(8), errno.ENOSYS, id="what no drive has"),
        pytest.param(
            SETATTR, struct.pack("=IIQQ64x", 8, 0, 0, 5), errno.EPERM, id="truncate"
        ),
        pytest.param(
            SETATTR, struct.pack("=IIQQ64x", 8, 0, 0, SIZE), 0, id="same size"
        ),
        pytest.param(SETATTR, struct.pack("=IIQQ64x", 1, 0, 0, 0), 0, id="chmod"),
        pytest.param(
            FALLOCATE, fallocate(SIZE - 1, 2, 2), errno.ENOSPC, id="beyond the end"
        ),
        pytest.param(
            FALLOCATE, fallocate(0, 512, 8), errno.EOPNOTSUPP, id="collapse range"
        ),
    ],
)
def test_errors_are_those_of_a_drive(
    kernel: Kernel, opcode: int, body: bytes, number: int
) -> None:
    assert kernel.answer(opcode, body)[0] == number


@pytest.mark.parametrize("opcode", [FORGET, INTERRUPT, 42])
def test_some_requests_have_no_answer(kernel: Kernel, opcode: int) -> None:
    kernel.ask(opcode, bytes(16))
    assert kernel.answers() == {}


def test_the_file_is_the_drive(kernel: Kernel) -> None:
    _, content = kernel.answer(GETATTR, bytes(16))
    assert len(content) == 104
    assert struct.unpack_from("=Q", content, 24) == (SIZE,)
    assert len(kernel.answer(OPEN, bytes(8))[1]) == 16
    assert len(kernel.answer(STATFS)[1]) == 80
    _, content = kernel.answer(INIT, struct.pack("=IIII", 7, 40, 131072, 0xFFFFFFFF))
    assert len(content) == 64
    assert struct.unpack_from("=I", content, 20) == (1 << 20,)


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        pytest.param(0, b"x", id="allocate"),
        pytest.param(1, b"x", id="allocate, keep size"),
        pytest.param(3, b"\0", id="punch hole"),
        pytest.param(0x10, b"\0", id="zero range"),
        pytest.param(0x11, b"\0", id="zero range, keep size"),
    ],
)
def test_only_a_hole_or_zeros_change_bytes(
    kernel: Kernel, mode: int, left: bytes
) -> None:
    kernel.write(512, b"x" * 512)
    kernel.answers()
    assert kernel.answer(FALLOCATE, fallocate(0, 4096, mode)) == (0, b"")
    assert kernel.read(512, 512) == left * 512


@with_spec(flush_ms=10.0)
def test_a_flush_is_answered_late_and_writes_meanwhile_at_once(kernel: Kernel) -> None:
    kernel.write(0, b"a" * 512)
    first = kernel.ask(FSYNC, flush())
    second = kernel.write(512, b"b" * 512)
    assert kernel.front.due_s() == pytest.approx(0.01)
    assert first not in (answers := kernel.answers())
    assert second in answers
    kernel.now += 0.0101
    kernel.front.complete()
    assert kernel.answers() == {first: (0, b"")}
    assert kernel.front.due_s() is None
    kernel.front.cut("none", 0)
    kernel.front.power_on()
    assert kernel.read(0, 1) + kernel.read(512, 1) == b"a\0"


@with_spec(flush_ms=10.0, write_ms=5.0)
def test_the_device_does_one_thing_at_a_time(kernel: Kernel) -> None:
    order = [kernel.ask(FSYNC, flush()), kernel.write(0, b"a"), kernel.write(1, b"b")]
    for unique, seconds in zip(order, (0.010, 0.005, 0.005), strict=True):
        assert kernel.front.due_s() == pytest.approx(seconds)
        kernel.now += seconds + 1e-9
        kernel.front.complete()
        assert list(kernel.answers()) == [unique]


@pytest.mark.parametrize("kernel", [{"personality": "lying"}], indirect=True)
def test_a_lying_drive_answers_flushes_at_once(kernel: Kernel) -> None:
    kernel.front.set_times(50.0, 0.0)
    assert kernel.answer(FSYNC, flush()) == (0, b"")


@with_spec(personality="fickle", lie_fraction=1.0, flush_ms=10.0)
def test_a_fickle_drive_takes_its_time_also_when_it_lies(kernel: Kernel) -> None:
    kernel.ask(FSYNC, flush())
    assert kernel.front.due_s() == pytest.approx(0.01)


@with_spec(flush_ms=10.0)
def test_times_can_be_changed(kernel: Kernel) -> None:
    kernel.front.set_times(0.0, 0.0)
    assert kernel.answer(FSYNC, flush()) == (0, b"")


@with_spec(flush_ms=10.0, write_ms=5.0)
def test_a_freeze_holds_what_was_due_and_what_comes(kernel: Kernel) -> None:
    uniques = {kernel.ask(FSYNC, flush()), kernel.write(0, b"late")}
    frozen_us = kernel.front.freeze()
    assert frozen_us > 0
    kernel.now += 60
    kernel.front.complete()
    uniques |= {kernel.ask(READ, transfer(0, 4)), kernel.write(9, b"after")}
    assert kernel.answers() == {}
    kernel.front.fail()
    assert kernel.answers() == dict.fromkeys(uniques, (errno.EIO, b""))
    kernel.front.fail()
    assert kernel.answers() == {}, "nothing is answered twice"
    kernel.front.cut("all", 0)
    kernel.front.power_on()
    kernel.now += 60
    kernel.front.complete()
    assert kernel.read(0, 16) == bytes(16), "none of the late writes may land"


def test_a_drive_that_is_off_fails_data_but_not_questions(kernel: Kernel) -> None:
    kernel.front.fail()
    for opcode, body in (
        (READ, transfer(0, 4)),
        (WRITE, transfer(0, 1) + b"x"),
        (FSYNC, flush()),
        (FALLOCATE, fallocate(0, 512, 2)),
    ):
        assert kernel.answer(opcode, body) == (errno.EIO, b"")
    assert kernel.answer(GETATTR, bytes(16))[0] == 0


def test_power_on_fails_what_was_still_held(kernel: Kernel) -> None:
    kernel.front.freeze()
    unique = kernel.ask(READ, transfer(0, 4))
    kernel.front.power_on()
    assert kernel.answers() == {unique: (errno.EIO, b"")}
    assert kernel.drive.state is DriveState.ON
    assert kernel.read(0, 4) == bytes(4)


def test_a_cut_of_a_running_drive_freezes_it_first(kernel: Kernel) -> None:
    kernel.write(0, b"x" * 512)
    kernel.answers()
    assert kernel.front.cut("none", 0).lost_sectors == 1
    kernel.ask(READ, transfer(0, 1))
    assert kernel.answers() == {}
