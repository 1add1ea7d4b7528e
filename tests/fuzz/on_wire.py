"""Messages: what a client sends to an agent, and what a host answers to a client."""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from dbcheck.agent import wire
from dbcheck.agent import witness as agent
from dbcheck.agent.host import serve as host_agent
from dbcheck.base.errors import DbcheckError
from dbcheck.hosts.canary import Pace
from dbcheck.hosts.host import TargetHost
from dbcheck.remote.channel import Pipe
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import AgentWitness
from tests.fuzz.script import Script, edit_bytes, edit_value
from tests.fuzz.target import Target
from tests.kit.channels import Script as Said
from tests.kit.channels import reply
from tests.kit.memory import scratch

RUN = "20260101-120000-ab12"
TOKEN = agent.make_token(RUN, 0)


def message(verb: int, body: bytes, token: int = 0, count: int = 0) -> bytes:
    return wire.MESSAGE.pack(verb, token, count, len(body)) + body


def framed(data: bytes) -> None:
    """Messages are the same however they arrive, and nothing is kept beyond one."""
    results: list[object] = []
    for size in (max(1, len(data)), 5):
        buffer, found = bytearray(), []
        try:
            for at in range(0, len(data), size):
                buffer += data[at : at + size]
                found += wire.take_messages(buffer)
        except wire.Refusal:
            results.append(None)
        else:
            assert len(buffer) <= wire.MESSAGE.size + wire.MESSAGE_BYTES_MAX
            results.append(found)
    assert results[0] == results[1]


def messages() -> Iterator[bytes]:
    yield message(agent.RUNS, b"{}") + message(agent.APPEND, b"x" * 28, TOKEN, 1)
    yield message(agent.NOTE, b'{"a": 1}', TOKEN)[:-2]


def asks(folder: str) -> list[dict[str, Any]]:
    here: dict[str, Any] = {"folder": folder, "run": RUN}
    manifest = "eyJsb2dzIjogM30="  # {"logs": 3}
    return [
        {"verb": agent.CREATE, **here, "volatile": True, "manifest": manifest},
        {"verb": agent.JOIN, **here, "log": 1},
        {"verb": agent.PROBE, "folder": folder, "count": 2, "volatile": True},
        {"verb": agent.RUNS, "folder": folder},
        {"verb": agent.MANIFEST, **here},
        {"verb": agent.READ, **here, "log": 0},
        {"verb": agent.REMOVE, **here},
        {"verb": agent.FACTS, "folder": folder},
    ]


def conversed(data: bytes) -> None:
    """An agent answers whatever a client says, and ends only with the channel."""
    script = Script(data)
    sent: list[tuple[int, bytes]] = []
    with scratch() as folder, confined(folder):
        one = agent.Agent(lambda kind, payload, token: sent.append((kind, payload)))
        try:
            while not script.is_over:
                before = len(sent)
                verb, token, count, body = said(script, str(folder))
                one.handle([(verb, token, count, body)])
                assert len(sent) > before
        finally:
            one.close()
    for kind, payload in sent:
        if kind == wire.ERROR:
            assert set(json.loads(payload)) == {"code", "message"}


@contextlib.contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Let nothing be made outside of *folder*, whatever is asked."""

    def make(path: str) -> None:
        if os.path.isabs(path) and not Path(os.path.normpath(path)).is_relative_to(
            folder
        ):
            raise wire.Refusal("outside", path)
        wire.make_folder(path)

    with mock.patch.object(agent, "make_folder", make):
        yield


def said(script: Script, folder: str) -> tuple[int, int, int, bytes]:
    """Return one message: a request, changed or not, or a batch."""
    if script.below(3) == 0:
        body = script.take(script.below(40))
        verb = script.choice((agent.APPEND, agent.NOTE, script.below(256)))
        return verb, script.choice((TOKEN, TOKEN, 0)), script.below(9), body
    inside = os.path.join(folder, "w")
    ask = script.choice(asks(inside))
    verb = ask.pop("verb")
    if script.below(2):
        ask = edit_value(script, ask)
    with contextlib.suppress(ValueError):  # a number of too many digits
        body = json.dumps(ask).encode()
        return verb, 0, 0, body if script.below(8) else edit_bytes(script, body)
    return verb, 0, 0, b"["


def scripts() -> Iterator[bytes]:
    yield bytes((1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 3, 0, 1, 1, 5, 0, 1))
    for step in range(24):
        yield bytes((step * 5 + place * (step + 1)) % 256 for place in range(48))


class _Witness(AgentWitness):
    kind = "file"

    def __init__(self, pipe: Pipe) -> None:
        super().__init__("file:x", "/x", WindowLimits(), volatile=True)
        self._pipe = pipe

    def _open_pipe(self) -> Pipe:
        return self._pipe


def _canaries(pipe: Pipe) -> None:
    host = TargetHost("h", lambda program: pipe)
    canaries = host.start_canaries("/d", pace=Pace(rings=1))
    canaries.stop()
    assert not canaries._thread.is_alive()
    canaries.completed()


def _created(pipe: Pipe) -> None:
    log = _Witness(pipe).create(RUN, b"{}")
    log.close()


def _host(pipe: Pipe) -> TargetHost:
    return TargetHost("h", lambda program: pipe)


QUESTIONS: tuple[Callable[[Pipe], object], ...] = (
    lambda pipe: _Witness(pipe).facts(),
    lambda pipe: _Witness(pipe).probe(3),
    lambda pipe: _Witness(pipe).runs(),
    lambda pipe: _Witness(pipe).manifest(RUN),
    lambda pipe: list(_Witness(pipe).read(RUN)),
    _created,
    lambda pipe: _host(pipe).facts("/d"),
    lambda pipe: _host(pipe).find_data("/d"),
    lambda pipe: _host(pipe).mark_log("/l"),
    lambda pipe: _host(pipe).read_log("/l", {"/l": [1, 2]}),
    lambda pipe: _host(pipe).read_canaries("/c", "ab"),
    _canaries,
    lambda pipe: _host(pipe).identity(),
)
_NAMES = {"hostname": "h", "machine_id": "m", "boot_id": "b", "addresses": ["::2"]}
_LAYER = {"name": "sda", "kind": "disk", "dm_name": "", "dm_uuid": ""} | {
    "backing_file": "",
    "write_cache": "write back",
    "fua": "0",
    "below": [],
}
_DRIVE = {"name": "sda", "model": "m", "serial": "s", "wwid": "w"} | {
    "write_cache": "write back",
    "unsafe_shutdowns": 4,
    "power_cycles": None,
}
_VOLUME = {
    "places": {"data": "/d", "WAL": "/d/w"},
    "mount_point": "/",
    "filesystem": "xfs",
    "mount_options": "rw",
    "source": "/dev/sda",
    "filesystem_uuid": "u",
    "layers": [_LAYER],
    "drives": [_DRIVE],
    "unreadable": {},
}
_FACTS = {**_NAMES, "clock_us": 5, "uptime_s": 1.5, "data_directory": "/d"} | {
    "made": {".": "1"},
    "volumes": [_VOLUME],
    "unseen": {"undo": "why"},
    "unreadable": {},
}
_RUN = {"nonce": "ab", "rings": 1, "ring_blocks": 8, "records_per_file": 4}
_DATA_NAMES = {
    "empty": False,
    "system_identifier": "7",
    "started_s": 5,
    "server_uuid": "",
    "marks": ["m"],
    "unreadable": {"server_uuid": "why"},
}
ANSWERS: tuple[Any, ...] = (
    {**_NAMES, "folder": "/x", "filesystem": "xfs", "free_bytes": 9, "clock_us": 5},
    [0.1, 0.2, 0.3],
    [RUN],
    None,
    None,
    None,
    _FACTS,
    {"found": [{"process": 0, "names": _DATA_NAMES}]},
    {"/l": [3, 4]},
    {"text": "x", "truncated": False, "rewound": False},
    {"run": _RUN, "buffered": [[1, 4]], "first": 1}
    | {"rings": [{"found": [[1, 2]], "torn": [3]}]},
    {"folder": "/c"},
    {**_NAMES, "serial": "s"},
)


def answered(data: bytes) -> None:
    """A client takes an answer that makes sense, and refuses any other one."""
    script = Script(data)
    number = script.below(len(QUESTIONS))
    answer = ANSWERS[number]
    parts = [wire.HELLO]
    for _ in range(1 + script.below(3)):
        if answer is not None and script.below(4):
            value = edit_value(script, answer) if script.below(4) else answer
            with contextlib.suppress(ValueError):  # a number of too many digits
                parts.append(reply(wire.RESULT, json.dumps(value).encode()))
            continue
        kinds = (wire.DATA, wire.END, wire.MARK, wire.ERROR, wire.RESULT)
        kind = script.choice((*kinds, host_agent.COMPLETED, script.below(256)))
        marks = struct.pack("<QQQ", script.below(3), script.below(3), script.below(2))
        body = script.choice((script.take(script.below(64)), marks + bytes(32)))
        parts.append(reply(kind, body))
    if number == QUESTIONS.index(_canaries) and script.below(2):
        ended = {"buffered": 3, "direct": [2], "stopped": ""}
        value = edit_value(script, ended) if script.below(4) else ended
        with contextlib.suppress(ValueError):
            parts.append(reply(wire.RESULT, json.dumps(value).encode()))
    raw = b"".join(parts[1:])
    if not script.below(4):
        raw = edit_bytes(script, raw)
    with contextlib.suppress(DbcheckError):
        QUESTIONS[number](Said(parts[0], raw))


TARGETS = (
    Target("wire", framed, messages),
    Target("agent", conversed, scripts),
    Target("answers", answered, scripts),
)
