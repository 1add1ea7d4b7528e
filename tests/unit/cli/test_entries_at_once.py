"""The same work on many hosts."""

from __future__ import annotations

import signal
import threading

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags import entries
from dbcheck.cli.flags.entries import run_at_once
from dbcheck.inventory.entry import Entry
from tests.kit.refusals import refused

WAIT_S = 60
HOSTS = [Entry(name=f"db{number}", target="") for number in range(5)]


def test_results_come_in_the_order_of_the_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entries, "HOSTS_AT_ONCE", 2)
    second = threading.Event()

    def work(entry: Entry) -> str:
        if entry.name == "db0":
            assert second.wait(WAIT_S)  # another host is worked on meanwhile
        second.set()
        return entry.name

    assert run_at_once(work, HOSTS) == tuple(entry.name for entry in HOSTS)


def test_an_error_of_one_host_is_raised() -> None:
    def work(entry: Entry) -> None:
        if entry.name == "db3":
            raise UsageError("of db3", id=ErrorId.OPTIONS_CONFLICT)

    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming="of db3"):
        run_at_once(work, HOSTS)


def test_an_interrupt_does_not_wait_for_hosts_that_do_not_answer() -> None:
    working, over = threading.Event(), threading.Event()

    def work(_: Entry) -> None:
        working.set()
        over.wait(WAIT_S)

    def interrupt() -> None:
        assert working.wait(WAIT_S)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_at_once(work, HOSTS)
    assert not over.is_set()
    over.set()
