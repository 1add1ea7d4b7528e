"""The thread that looks at a server or host while a load runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dbcheck import interrupt
from dbcheck.campaign.loading import FIRST_LOOK_S
from dbcheck.campaign.watching import Watching
from dbcheck.core.watched import Looked, settings_looked
from dbcheck.error_ids import ErrorId
from dbcheck.errors import HostError

SETTINGS = settings_looked({"fsync": "on"})
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
    monkeypatch.setattr(interrupt, "_came", [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        hanging.await_first(time.monotonic() + RED_S)


def test_a_first_look_that_fails_holds_no_load_up() -> None:
    def refused() -> LateLook:
        raise HostError("refused", id=ErrorId.AGENT_NOT_STARTED)

    watching = Watching(refused, SETTINGS)
    watching.await_first(time.monotonic() + FIRST_LOOK_S)
    watching.end()
    assert (watching.seen().looks, watching.seen().ended) == (0, "refused")
