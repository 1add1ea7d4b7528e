"""A lab's two control sockets, that of its daemon and that of its drive."""

from __future__ import annotations

import contextlib
import copy
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from dbcheck.core.cut import PowerState
from dbcheck.errors import LabError
from dbcheck.lab.daemon import rpc as control
from dbcheck.lab.daemon import serve as daemon
from dbcheck.lab.daemon.serve import Daemon
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.model import DriveState
from dbcheck.lab.drive.process import MESSAGE_BYTES_MAX, DriveServer
from dbcheck.lab.machine import SERVERS, Machine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import SURVIVORS, TIME_MAX, DriveSpec, LabSpec
from dbcheck.lab.state import Entry
from dbcheck.lab.storage.drive import DriveStorage
from tests.fuzz.memory import scratch
from tests.fuzz.script import ODD, Script, edit_bytes, edit_value
from tests.fuzz.target import Target
from tests.unit.test_drive_fuse import FSYNC, Kernel

_SECTOR_BYTES = 512
_SECTORS = 8  # of the drive are written
_WAIT_S = 5.0
_ODD = tuple(one for one in ODD if type(one) is not int or abs(one) < 1 << 70)


# ------------------------------------------------------------------------- the drive


class InlineDrive(DriveProcess):
    """A drive that needs no process: its server is called for each command."""

    def __init__(self, **spec: Any) -> None:
        self.kernel = Kernel(**spec)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(
            self.kernel.drive.spec, cast("Any", None), ours, cast("Any", None)
        )
        self._theirs = theirs
        self._server = DriveServer(theirs, theirs.fileno(), self.kernel.drive, 5.0)
        self._server._front = self.kernel.front

    def say(self, message: bytes) -> Any:
        """Send a message as it is; return the answer."""
        self._control.send(message)
        assert self._server._command()
        return self._receive("x", _WAIT_S)

    def wait_s(self) -> float | None:
        """Return how long its loop may wait; it must be what select() takes."""
        return self._server._wait_s()

    def _receive(self, command: str, timeout_s: float) -> dict[str, Any]:
        if command != "x":
            assert self._server._command()
        return super()._receive(command, timeout_s)

    def close(self) -> None:
        for one in (self._control, self._theirs):
            one.close()
        self.kernel.close()


class SlowDrive:
    """A drive as it should be: of each sector, what is stable and what may survive."""

    def __init__(self, *, honest: bool) -> None:
        self.honest, self.state = honest, DriveState.ON
        self.sectors = [[bytes(_SECTOR_BYTES)] for _ in range(_SECTORS)]

    def write(self, sector: int, content: bytes) -> None:
        self.sectors[sector].append(content)

    def flush(self) -> None:
        if self.honest:
            self.settle()

    def settle(self) -> None:
        self.sectors = [versions[-1:] for versions in self.sectors]

    def legal(self, survivors: str) -> list[list[bytes]]:
        """Return what each sector may be after a cut."""
        if survivors == "none":
            return [versions[:1] for versions in self.sectors]
        if survivors == "all":
            return [versions[-1:] for versions in self.sectors]
        return self.sectors


def drive(data: bytes) -> None:
    """A drive obeys what makes sense, and nothing else changes it."""
    script = Script(data)
    honest = bool(script.below(2))
    spec = {"personality": "honest" if honest else "lying", "destage_age_s": 0.0}
    with contextlib.closing(InlineDrive(**spec)) as real:
        slow = SlowDrive(honest=honest)
        steps = 0
        while not script.is_over and steps < 60:
            steps += 1
            _command(script, real, slow) if script.below(2) else _use(
                script, real, slow
            )
            assert real.kernel.drive.state is slow.state
            wait_s = real.wait_s()
            assert wait_s is None or 0 <= wait_s <= 2 * steps * TIME_MAX
        real.say(b'{"command": "power_on"}')
        assert _sectors(real) == [versions[-1] for versions in slow.sectors]


def _use(script: Script, real: InlineDrive, slow: SlowDrive) -> None:
    """Write or flush as the kernel does, and let the time pass that it takes."""
    sector, content = script.below(_SECTORS), bytes((script.below(256),)) * 512
    if script.below(3):
        unique = real.kernel.write(sector * _SECTOR_BYTES, content)
        then: Callable[[], None] = lambda: slow.write(sector, content)  # noqa: E731
    else:
        unique, then = real.kernel.ask(FSYNC, bytes(16)), slow.flush
    real.kernel.now += 2 * TIME_MAX / 1e3
    real.kernel.front.complete()
    answers = real.kernel.answers()
    if slow.state is DriveState.ON:
        assert answers[unique][0] == 0, "it was answered, and well"
        then()
    else:
        assert (unique in answers) == (slow.state is DriveState.OFF)


_GOOD: tuple[dict[str, Any], ...] = (
    {"command": "set_times", "flush_ms": 2.0, "write_ms": 0.5},
    {"command": "set_times", "flush_ms": 0, "write_ms": 0},
    {"command": "freeze"},
    {"command": "fail"},
    {"command": "power_on"},
    {"command": "settle"},
    {"command": "counters"},
    *({"command": "cut", "survivors": kind, "seed": 7} for kind in SURVIVORS),
)


def _edited(script: Script, value: Any, how: int) -> bytes:
    """Return *value* as JSON, with other values, other bytes, or as it is."""
    raw = json.dumps(value).encode()
    if how == 2:
        with contextlib.suppress(ValueError):  # a number of too many digits
            return json.dumps(edit_value(script, value)).encode()
    return edit_bytes(script, raw) if how == 3 else raw


def _command(script: Script, real: InlineDrive, slow: SlowDrive) -> None:
    """Give a command, sound or not; the slow drive obeys if the real one did."""
    value: Any = script.choice(_GOOD)
    how = script.below(4)
    if how == 1:
        value = {**value, script.choice(sorted(value)): script.choice(_ODD)}
    raw = _edited(script, value, how)
    before = _sectors(real) if slow.state is not DriveState.FROZEN else None
    answer = real.say(raw[:MESSAGE_BYTES_MAX] or b"0")
    assert isinstance(answer, dict)
    if "error" in answer:
        assert how, "a sound command was refused"
        assert before is None or _sectors(real) == before
        return
    _obey(json.loads(raw), real, slow)
    real.kernel.answers()


def _obey(value: dict[str, Any], real: InlineDrive, slow: SlowDrive) -> None:
    match value:
        case {"command": "freeze"}:
            if slow.state is DriveState.ON:
                slow.state = DriveState.FROZEN
        case {"command": "cut", "survivors": survivors}:
            if slow.state is DriveState.ON:
                slow.state = DriveState.FROZEN
            now, legal = _sectors(real), slow.legal(survivors)
            assert all(one in those for one, those in zip(now, legal, strict=True))
            slow.sectors = [[one] for one in now]
        case {"command": "fail"}:
            slow.state = DriveState.OFF
        case {"command": "power_on"}:
            slow.state = DriveState.ON
        case {"command": "settle"}:
            slow.settle()
        case {"command": "set_times", "flush_ms": flush, "write_ms": write}:
            for cost in (flush, write):
                assert 0 <= cost <= TIME_MAX
        case _:
            assert value["command"] == "counters"


def _sectors(real: InlineDrive) -> list[bytes]:
    """Return the drive's bytes as they are, whatever its state."""
    view = real.kernel.drive._now[: _SECTORS * _SECTOR_BYTES].tobytes()
    return [view[at : at + _SECTOR_BYTES] for at in range(0, len(view), _SECTOR_BYTES)]


# ------------------------------------------------------------------------- the daemon


class _Storage(DriveStorage):
    """A drive without a filesystem on it."""

    def power_on(self, image: Path | None = None) -> None:
        self._running().power_on()


def _server(folder: Path) -> DatabaseServer:
    """Return what can be started, killed and configured."""
    does: Callable[..., None] = lambda *_: None  # noqa: E731
    names = (
        "strike",
        "kill",
        "start",
        "begin",
        "freeze",
        "thaw",
        "failure",
        "was_ended",
    )
    log = folder / "server.log"
    log.write_text("one\ntwo\n")
    facts = {"settings": {}, "url": "u", "password": "p", "log_file": log}
    return cast(
        "DatabaseServer", SimpleNamespace(**dict.fromkeys(names, does), **facts)
    )


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[tuple[Daemon, InlineDrive]]:
    """Have a daemon whose lab is on, without a process of its own."""
    spec = LabSpec("postgresql", filesystem="ext4", drive=DriveSpec(size_bytes=1 << 20))
    with contextlib.closing(InlineDrive(size_bytes=1 << 20)) as real:
        server = _server(folder)
        with mock.patch.dict(SERVERS, postgresql=lambda *_, **__: server):
            machine = Machine(spec, folder)
        machine._storage = storage = _Storage(spec, folder)
        storage._drive = real
        machine.power = PowerState.ON
        with (
            mock.patch.object(daemon, "Machine", lambda *_: machine),
            mock.patch.object(control.log, "disabled", True),
        ):
            yield Daemon(Entry(folder), folder, folder / "base", spec), real


_ASKED: tuple[dict[str, Any], ...] = (
    {"command": "describe"},
    {"command": "status"},
    {"command": "cut"},
    {"command": "restore"},
    {"command": "counters"},
    {"command": "set", "flush_ms": 2.0, "survivors": "torn", "seed": 3},
    {"command": "set", "write_ms": 1.0},
    {"command": "configure", "settings": {"fsync": "off"}},
    {"command": "freeze"},
    {"command": "thaw"},
    {"command": "log", "lines": 1},
)


def requests(data: bytes) -> None:
    """Whatever clients say, each gets one answer or none, and the lab works on."""
    script = Script(data)
    with scratch() as folder, lab(folder) as (one, real):
        thread = threading.Thread(target=one.serve, daemon=True)
        if script.below(2):
            one.answer("cut", {})
        thread.start()
        try:
            for _ in range(1 + script.below(6)):
                _client(script, folder / "control")
                assert thread.is_alive()
            assert control.ask(folder / "control", "status", timeout_s=_WAIT_S)
            _works(folder / "control", real)
        finally:
            with contextlib.suppress(LabError):
                control.ask(folder / "control", "down", timeout_s=_WAIT_S)
            thread.join(_WAIT_S)
            assert not thread.is_alive()
            one._socket.close()


def _client(script: Script, path: Path) -> None:
    """Send a request, sound or not, in pieces; take the answer, or do not."""
    value: Any = copy.deepcopy(script.choice(_ASKED))
    how = script.below(5)
    if how == 1:
        inner = value.get("settings", value)
        inner[script.choice(sorted(inner))] = script.choice(_ODD)
    raw = _edited(script, value, how)
    if how == 4:
        raw = b"[" * 20_000 + raw
    if b"down" in raw:
        return
    raw += b"\n" if script.below(8) else b""
    at = script.below(len(raw) + 1)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_WAIT_S)
        client.connect(str(path))
        client.sendall(raw[:at])
        if not script.below(4):
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(raw[at:])
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
            if answer or how == 0 and raw.endswith(b"\n"):
                _is_answer(answer, sound=how == 0)


def _is_answer(answer: bytes, *, sound: bool) -> None:
    assert answer.endswith(b"\n")
    reply = json.loads(answer)
    assert set(reply) in ({"ok"}, {"error", "hint"})
    if sound and "error" in reply:
        assert "failed" not in reply["error"], reply
        assert reply["hint"]


def _works(path: Path, real: InlineDrive) -> None:
    """See that the lab can do all that it can, after the clients."""

    def ask(command: str, **fields: object) -> Any:
        return control.ask(path, command, timeout_s=_WAIT_S, **fields)

    ask("restore")
    real.kernel.now += 2 * TIME_MAX
    real.kernel.front.complete()
    real.kernel.answers()
    unique = real.kernel.ask(FSYNC, bytes(16))
    wait_s = real.wait_s()
    assert wait_s is None or 0 <= wait_s <= TIME_MAX
    real.kernel.now += 2 * TIME_MAX
    real.kernel.front.complete()
    assert real.kernel.answers()[unique][0] == 0
    assert ask("cut")["report"]["wiring"] is None
    ask("configure", settings={})
    ask("restore")
    assert ask("status") == {"power": "on", "failure": None, "broken": None}


def answers(data: bytes) -> None:
    """A client takes a daemon's answer, or says what is wrong with it."""
    with scratch() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "control"))
        listener.listen()
        thread = threading.Thread(target=_say, args=(listener, data[: 1 << 15]))
        thread.start()
        try:
            found = control.ask(folder / "control", "status", timeout_s=_WAIT_S)
        except LabError as error:
            assert all(isinstance(words, str) for words in (*error.args, error.hint))
            return
        finally:
            thread.join()
    line, _, _ = data.partition(b"\n")
    assert repr(json.loads(line)["ok"]) == repr(found)


def _say(listener: socket.socket, data: bytes) -> None:
    """Take one request, and answer it so."""
    client, _ = listener.accept()
    with client, contextlib.suppress(OSError):  # the client has heard enough
        client.recv(1 << 16)
        client.sendall(data)


def replies() -> Iterator[bytes]:
    yield b'{"ok": {"power": "on", "failure": null, "broken": null}}\n'
    yield b'{"error": "no", "hint": "Do not ask."}\n'
    yield b'{"error": "no"}\n'
    yield b'{"error": 7, "hint": null}\n'
    yield b'{"ok": null}\n{"ok": 1}\n'
    yield b"7\n"
    yield b"[" * 20_000 + b"\n"


def choices() -> Iterator[bytes]:
    yield b""
    for step in range(48):
        yield bytes((step * 23 + place * (step + 3)) % 256 for place in range(40))


TARGETS = (
    Target("lab-requests", requests, choices),
    Target("lab-answers", answers, replies),
    Target("drive-commands", drive, choices),
)
