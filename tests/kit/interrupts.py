"""An interrupt that a test can send to itself, apart from pytest's own Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest


@pytest.fixture
def main() -> Iterator[int]:
    """The thread of this test, which SIGUSR1 interrupts."""
    former = signal.signal(signal.SIGUSR1, _interrupt)
    yield threading.get_ident()
    signal.signal(signal.SIGUSR1, former)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
