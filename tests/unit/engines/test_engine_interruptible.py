"""A call that an interrupt can end although it never looks for one."""

from __future__ import annotations

import signal
import threading

import pytest

from dbcheck.engines.link import StillRunning, run_interruptible
from tests.kit.interrupts import main as main


def test_what_it_returns_is_returned() -> None:
    severed = threading.Event()
    assert run_interruptible(lambda: [7], severed.set) == [7]
    assert not severed.is_set()


def test_what_it_raises_is_raised() -> None:
    severed, error = threading.Event(), ValueError("x")

    def call() -> None:
        raise error

    with pytest.raises(ValueError, match="x") as caught:
        run_interruptible(call, severed.set)
    assert caught.value is error
    assert not severed.is_set()


def test_what_takes_too_long_is_severed_and_left() -> None:
    severed = threading.Event()
    with pytest.raises(StillRunning, match=r"within 0\.01 s") as caught:
        run_interruptible(severed.wait, severed.set, 0.01)
    assert severed.is_set()
    caught.value.thread.join()


def test_an_interrupt_severs_it_and_comes_out(main: int) -> None:
    severed, ended = threading.Event(), threading.Event()

    def call() -> None:
        signal.pthread_kill(main, signal.SIGUSR1)
        severed.wait()
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(call, severed.set)
    assert severed.is_set()
    assert ended.wait(60)
