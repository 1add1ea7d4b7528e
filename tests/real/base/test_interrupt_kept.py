"""Interrupts that Python would lose, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dbcheck.base.interrupt import is_caused_by_interrupt

LOST = """
import signal
from dbcheck.base import interrupt

class Destroyed:
    def __del__(self):
        signal.raise_signal(signal.{name})

interrupt.install_handlers()
interrupt.raise_if_interrupted()
Destroyed()
print("lost")
try:
    interrupt.raise_if_interrupted()
except KeyboardInterrupt:
    print("found")
"""

HELD = """
import signal
from dbcheck.base import interrupt

interrupt.install_handlers()
try:
    with interrupt.hold_interrupts_back():
        signal.raise_signal(signal.SIGINT)
        print("done")
except KeyboardInterrupt:
    print("interrupted")
with interrupt.hold_interrupts_back():
    print("not again")
"""

NESTED = """
import signal
from dbcheck.base import interrupt

try:
    with interrupt.hold_interrupts_back():
        try:
            with interrupt.let_interrupts_through():
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("let through")
        before = interrupt.count_interrupts()
        with interrupt.hold_interrupts_back():
            signal.raise_signal(signal.SIGINT)
            print("held", interrupt.count_interrupts() - before)
        print("still held")
        with interrupt.let_interrupts_through():
            print("not here")
except KeyboardInterrupt:
    print("interrupted")
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("as before", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""

ELSEWHERE = """
import signal
import threading
from dbcheck.base import interrupt

interrupt.install_handlers()
held, done = threading.Event(), threading.Event()

def hold():
    with interrupt.hold_interrupts_back():
        held.set()
        done.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
done.set()
"""

LET_ELSEWHERE = """
import signal
import threading
from dbcheck.base import interrupt

interrupt.install_handlers()
let, done = threading.Event(), threading.Event()

def let_through():
    with interrupt.let_interrupts_through():
        let.set()
        done.wait()

thread = threading.Thread(target=let_through)
try:
    with interrupt.hold_interrupts_back():
        thread.start()
        let.wait()
        signal.raise_signal(signal.SIGINT)
        print("held")
except KeyboardInterrupt:
    print("interrupted")
done.set()
"""

IGNORED = """
import signal
from dbcheck.base import interrupt

signal.signal(signal.SIGHUP, signal.SIG_IGN)
interrupt.install_handlers()
signal.raise_signal(signal.SIGHUP)
interrupt.raise_if_interrupted()
print("ignored")
"""

REPLACED = """
import signal
import sys
import click
from dbcheck import cli
from dbcheck.cli import root

@click.command()
def command():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        raise RuntimeError("release unlocked lock")

root.root = command
sys.argv = ["dbcheck"]
cli.main()
"""


def python(script: str) -> subprocess.CompletedProcess[str]:
    """Run *script* with the interpreter that runs this."""
    command = (sys.executable, "-c", script)
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_one_that_a_destructor_lost_is_found(name: str) -> None:
    """Python would print "Exception ignored" and a traceback."""
    done = python(LOST.format(name=name))
    assert (done.stdout, done.stderr) == ("lost\nfound\n", "")


def test_one_that_has_to_wait_comes_afterwards() -> None:
    assert python(HELD).stdout == "done\ninterrupted\nnot again\n"


def test_a_part_can_be_let_through_and_the_outermost_decides() -> None:
    """Also in a program that did not call install()."""
    assert python(NESTED).stdout == (
        "let through\nheld 1\nstill held\ninterrupted\nas before True\n"
    )


def test_another_thread_holds_nothing_back() -> None:
    assert python(ELSEWHERE).stdout == "interrupted\n"


def test_another_thread_lets_nothing_through() -> None:
    assert python(LET_ELSEWHERE).stdout == "held\ninterrupted\n"


def test_what_nohup_ignores_stays_ignored() -> None:
    assert python(IGNORED).stdout == "ignored\n"


def test_one_that_became_another_error_is_told_as_what_it_is() -> None:
    done = python(REPLACED)
    assert done.returncode == 4
    assert done.stderr == (
        "dbcheck: interrupted (RuntimeError('release unlocked lock'))\n"
    )


def test_an_error_of_its_own_is_no_interrupt() -> None:
    error = ValueError("x")
    error.__context__ = OSError("y")
    assert not is_caused_by_interrupt(error)
    error.__context__.__context__ = KeyboardInterrupt()
    assert is_caused_by_interrupt(error)
