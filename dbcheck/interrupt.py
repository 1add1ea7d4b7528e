"""Interrupts, also those that Python loses.

An interrupt is raised wherever the main thread happens to be.  In a destructor or in
the callback of a weak reference Python prints and forgets it (Python 3.11 reference,
object.__del__ and weakref.ref), and a lock that is being waited for may turn it into
a RuntimeError.  So it is also noted, and whatever takes long looks at the note.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_came: list[int] = []  # no Event: a second signal would wait for the lock of the first
_holding: list[bool] = []  # not empty: an interrupt has to wait


def install() -> None:
    """Let each signal that asks for an end take the way of Ctrl-C.

    So everything is closed and removed.  A signal that whoever started this process
    has ignored, as nohup does, stays ignored.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let an interrupt that comes in the body, which must be short, come after it.

    For what would be lost if it were begun and not yet known by a name.
    """
    before = len(_came)
    _holding.append(True)
    try:
        yield
    finally:
        _holding.pop()
    if len(_came) > before:
        raise KeyboardInterrupt


def led_to(error: BaseException | None) -> bool:
    """Say whether *error* came up while an interrupt was on its way."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def require_none() -> None:
    """Raise KeyboardInterrupt if one came and was lost on its way."""
    if _came:
        raise KeyboardInterrupt


def _raise(number: int, frame: FrameType | None) -> None:
    _came.append(number)
    if not _holding:
        raise KeyboardInterrupt
