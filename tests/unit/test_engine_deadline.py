"""The limit on a server's silence."""

from __future__ import annotations

import threading

from dbcheck.engines.deadline import deadline


def test_severs_what_takes_too_long() -> None:
    severed = threading.Event()
    with deadline(0.0, severed.set):
        assert severed.wait(5)


def test_leaves_alone_what_is_in_time_and_leaves_no_thread() -> None:
    severed = threading.Event()
    before = threading.active_count()
    with deadline(60.0, severed.set):
        pass
    assert not severed.is_set()
    assert threading.active_count() == before
