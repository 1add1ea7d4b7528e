"""Handles interrupts, also those that Python loses.

An interrupt is raised wherever the main thread happens to be.  In a destructor or in
the callback of a weak reference Python prints and forgets it (Python 3.11 reference,
object.__del__ and weakref.ref), and a lock that is being waited for may turn it into
a RuntimeError.  So it is also noted, and every long operation checks the note.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Signals that came.  No Event: a second signal would wait for the lock of the first.
_interrupts: list[int] = []
# For each running body of a hold, the innermost last: True if interrupts wait for it.
_holds: list[bool] = []
ended: list[int] = []  # the exit code, once the program's work is over


def install_handlers() -> None:
    """Handle each signal that asks for an end as Ctrl-C.

    So everything is closed and removed.  A signal that the starter of this process set
    to be ignored, as nohup does, stays ignored.  Once *ended* holds an exit code, a
    signal ends the process at once, with that code.
    """
    sys.unraisablehook = _silence_hook(sys.unraisablehook)
    # The function that is registered first is called last.
    atexit.register(_ignore_signals)
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle_signal)


def _silence_hook(hook: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a hook that calls *hook* but for interrupts, which are noted anyway."""

    def report(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            hook(unraisable)

    return report


def _ignore_signals() -> None:
    """Ignore all further signals: Python is about to end, and removes the handlers.

    _PySignal_Fini() in Modules/signalmodule.c gives each signal with a handler in
    Python its default action back, which is to end the process.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if ended and threading.active_count() > 1:
        exit_process(ended[0])


def exit_process(code: int) -> NoReturn:
    """End the process with *code*, whatever its threads do; what was printed is kept.

    exit(3) has libraries in C undo what a thread may be using, and crashes then: so
    does OpenSSL (OPENSSL_cleanup(3), atexit) while libpq computes in it.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or its reader is gone
            stream.flush()
    os._exit(code)


@contextlib.contextmanager
def hold_interrupts_back() -> Iterator[None]:
    """Delay an interrupt until after the body, and after all bodies around it.

    The body must be short, or end early if count_interrupts() grows.  Use it for what
    must not be left half done, and for objects that would be lost if the interrupt came
    before they are bound to a name.

    An error of the body comes instead of the interrupt, which stays noted.
    """
    if not _is_main():
        yield  # no interrupt is raised here
        return
    with _note_ctrl_c():
        before, depth = len(_interrupts), len(_holds)
        _holds.append(True)
        try:
            yield
        finally:
            del _holds[depth:]
    if len(_interrupts) > before and not _must_wait():
        raise KeyboardInterrupt


@contextlib.contextmanager
def let_interrupts_through() -> Iterator[None]:
    """Let interrupts come at once in a body inside of hold_interrupts_back().

    An interrupt that came before is raised now.
    """
    if not _is_main():
        yield
        return
    depth = len(_holds)
    _holds.append(False)
    try:
        raise_if_interrupted()
        yield
    finally:
        del _holds[depth:]


def count_interrupts() -> int:
    """Return the number of interrupts so far."""
    return len(_interrupts)


def is_caused_by_interrupt(error: BaseException | None) -> bool:
    """Return True if *error* came up while an interrupt was on its way."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if one came and was lost on its way."""
    if _interrupts:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _note_ctrl_c() -> Iterator[None]:
    """Note Ctrl-C also in a program that did not call install_handlers()."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _handle_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _must_wait() -> bool:
    return bool(_holds) and _holds[-1]


def _handle_signal(number: int, frame: FrameType | None) -> None:
    if ended:
        os._exit(ended[0])
    _interrupts.append(number)
    if not _must_wait():
        raise KeyboardInterrupt
