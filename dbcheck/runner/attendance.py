"""The person who cuts the power by hand: whom a campaign asks, and waits for."""

from __future__ import annotations

import contextlib
import sys
import termios
from collections.abc import Iterator, Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.text import join_words
from dbcheck.inventory.entry import Entry
from dbcheck.power.registry import UNATTENDED
from dbcheck.report.progress import PlainProgress


def require_unattended(entries: Sequence[Entry]) -> None:
    """Raise UsageError if a person would have to cut one of *entries* by hand.

    Campaigns that run at once, or on workers, have no terminal to ask in.
    """
    by_hand = [entry.title for entry in entries if _is_attended(entry)]
    if not by_hand:
        return
    raise UsageError(
        f"the power of {join_words(by_hand, 'and')} is cut by hand, and campaigns on"
        " several targets, or on workers (--dask), need switches that work unattended",
        id=ErrorId.UNATTENDED_SWITCH_NEEDED,
        hint="Run one campaign for it alone, in a terminal: dbcheck campaign"
        f" {by_hand[0]}. Or give it a switch by dbcheck_power: {UNATTENDED}.",
    )


def _is_attended(entry: Entry) -> bool:
    """Return True if a person may have to cut one of the hosts of *entry*."""
    return any(host.power.attended for host in entry.cut_in_turn)


def require_terminal(entry: Entry) -> None:
    """Raise UsageError if a person must cut and no terminal can ask them to."""
    if not _is_attended(entry) or (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    raise UsageError(
        f"host {entry.title}: its power is cut by hand, and this campaign has no"
        " terminal to ask for each cut",
        id=ErrorId.TERMINAL_NEEDED,
        hint="Run it in a terminal (over SSH: ssh -t), with neither its input nor"
        " its error output redirected. Or give the host a switch by dbcheck_power:"
        f" {UNATTENDED}.",
    )


def await_enter(view: PlainProgress, text: str) -> None:
    """Show *text* until somebody presses Enter; raise KeyboardInterrupt at the end.

    That is the end of the terminal's input, as by Ctrl-D.  What was typed before the
    text was shown is dropped.
    """
    view.ask(text)
    try:
        with _typing_unseen():
            if not sys.stdin.readline():
                raise KeyboardInterrupt
    finally:
        view.end_question()


@contextlib.contextmanager
def _typing_unseen() -> Iterator[None]:
    """Keep the terminal from showing what is typed: it would move the live view."""
    try:
        before = termios.tcgetattr(sys.stdin)
    except termios.error:  # no terminal
        yield
        return
    quiet = list(before)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
