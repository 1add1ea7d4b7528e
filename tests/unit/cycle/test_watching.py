"""The thread that looks at a server or host while a load runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from dbcheck.base import interrupt
from dbcheck.base.decoding import convert
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.loading import FIRST_LOOK_S, _watch
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Limits
from dbcheck.cycle.watching import Watching, watch_hosts
from dbcheck.hosts.host import TargetHost
from dbcheck.load.load import Load
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Gone
from dbcheck.model.places import DATA, Place
from dbcheck.model.watched import FactKind, Looked, make_facts_of_settings
from tests.kit.host_samples import BEFORE
from tests.kit.nodes import having
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.samples import FACTS, MANIFEST
from tests.kit.waiting import wait_until

SETTINGS = make_facts_of_settings({"fsync": "on"})
RED_S = 20.0  # after which a test that hangs fails


class LateLook:
    """A look at a busy host; *ready* lets it answer."""

    def __init__(self) -> None:
        self.ready = threading.Event()

    def read(self) -> Looked:
        self.ready.wait()
        return SETTINGS

    def sever(self) -> None:
        self.ready.set()

    def close(self) -> None:
        pass


def test_a_load_can_wait_for_the_first_look_of_a_busy_host() -> None:
    look = LateLook()
    watching = Watching(lambda: look, SETTINGS)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watching.await_first, time.monotonic() + FIRST_LOOK_S)
        assert not waiting.done()
        look.ready.set()
        waiting.result()
    watching.end()
    seen = watching.seen()
    assert seen.looks
    assert seen.lived_us(seen.first_us) == seen.last_us


@pytest.fixture
def hanging() -> Iterator[Watching]:
    """A look at a host that never answers."""
    watching = Watching(LateLook, SETTINGS)
    yield watching
    watching.end()


def test_a_load_begins_although_the_first_look_hangs(hanging: Watching) -> None:
    waiting = threading.Thread(target=hanging.await_first, args=[time.monotonic()])
    waiting.start()
    waiting.join(RED_S)
    assert not waiting.is_alive()
    hanging.end()
    assert not hanging.seen().looks


def test_an_interrupt_ends_the_wait_for_the_first_look(
    hanging: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that Python lost on its way."""
    monkeypatch.setattr(interrupt, "_interrupts", [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        hanging.await_first(time.monotonic() + RED_S)


def test_a_first_look_that_fails_holds_no_load_up() -> None:
    def refused() -> LateLook:
        raise HostError("refused", id=ErrorId.AGENT_NOT_STARTED)

    watching = Watching(refused, SETTINGS)
    watching.await_first(time.monotonic() + FIRST_LOOK_S)
    watching.end()
    assert (watching.seen().looks, watching.seen().ended) == (0, "refused")


LOG = "redo log"
SEEN = [("/log", "xfs", "8:1")]
T = TypeVar("T")


class Answers:
    """A channel to a host that sees the log as *seen*, once in each connection."""

    def __init__(self, seen: object) -> None:
        self.left = [{LOG: seen, DATA: [("/d", "xfs", "8:1")]}]

    def answer(self, kind: type[T], verb: int, **question: object) -> T:
        if not self.left:
            raise HostError("the channel broke", id=ErrorId.AGENT_ENDED)
        return convert(
            {"mounts": {"/": "rw"}, "caches": {}, "places": self.left.pop()}, kind
        )

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("then", "moved"),
    [
        pytest.param(None, [], id="cannot be seen"),
        pytest.param([], [""], id="is gone"),
        pytest.param([("/log2", "xfs", "8:1")], ["/log2 (xfs 8:1)"], id="moved"),
    ],
)
def test_what_a_look_learned_is_known_after_its_channel_broke(
    then: object, moved: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preflight did not see the log; the first look does, and then another."""
    channels = [Answers(seen) for seen in (SEEN, then, then)]
    left: list[Any] = list(channels)
    host = TargetHost("db1", lambda _: pytest.fail("nothing is connected"))
    monkeypatch.setattr("dbcheck.cycle.watching.EVERY_S", 0.001)
    monkeypatch.setattr(host, "_open", lambda: left.pop(0) if left else channels[-1])
    node = {
        "host": BEFORE,
        "facts": replace(FACTS, identity={"datadir": "/d"}),
        "places": (Place(LOG, "/log"),),
    }
    nothing: Any = None
    started = Started(nothing, having(MANIFEST, **node), nothing, nothing, {})
    watching = watch_hosts(rig_of(RecordingListener(), host=host), started)[ONLY_NODE]
    wait_until(lambda: not any(channel.left for channel in channels), "all looks")
    wait_until(lambda: watching.seen().looks == len(channels), "all are counted")
    watching.end()
    assert [each.value for each in watching.seen().of(FactKind.PLACE)] == moved


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (Gone.BROKEN, "every connection broke"),
        (Gone.NEVER, "it still answers; deadlock"),
    ],
)
def test_one_refused_session_does_not_hide_that_the_server_answers(
    gone: Gone, said: str
) -> None:
    shown: list[str] = []
    load = SimpleNamespace(
        poll=lambda: True,
        status=lambda: None,
        gone=gone,
        result=SimpleNamespace(refusals=["deadlock"]),
    )
    listener = SimpleNamespace(
        load=lambda _: None, phase=lambda _, text: shown.append(text)
    )
    rig: Any = SimpleNamespace(limits=Limits(), listener=listener)
    cutter: Any = SimpleNamespace(after_s=1.0)
    never: Any = None  # the load is over at once
    _watch(rig, cast(Load, load), cast(Cutter, cutter), never, None)
    assert shown[1:] == [said]
