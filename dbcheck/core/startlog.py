"""What a server's log shows of its attempts to start, and of what ended them."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dbcheck.core import endpatterns, startpatterns

LINES_MAX = 3
LINE_CHARS_MAX = 300


class StartOutcome(enum.Enum):
    """How a server's attempts to start ended."""

    NEVER_STARTED = "never started"
    RUNNING = "running"  # recovering, or ready
    DESTROYED = "destroyed"  # its own data ended it
    FAILED = "failed"  # something else did, or the cause is not known


@dataclass(frozen=True, slots=True)
class Starts:
    """What a log shows since a mark.

    lines: the decisive ones, in the log's order; () if there are none.
    """

    outcome: StartOutcome
    lines: tuple[str, ...] = ()


def starts_in(text: str) -> Starts:
    """Return how the attempts to start in *text* ended.

    One attempt that its data ended means DESTROYED only if the server did not begin
    another since; of several, two do, unless the last one took queries.
    """
    begins = [match.start() for match in startpatterns.START.finditer(text)]
    if not begins:
        return Starts(StartOutcome.NEVER_STARTED)
    ends = [*begins[1:], len(text)]
    attempts = [
        _attempt(text[begin:end], last=end == len(text))
        for begin, end in zip(begins, ends, strict=True)
    ]
    destroyed = [one for one in attempts if one.outcome is StartOutcome.DESTROYED]
    if (
        attempts[-1].outcome is StartOutcome.RUNNING
        and len(destroyed) > 1
        and not startpatterns.READY.search(text, begins[-1])
    ):
        return destroyed[-1]
    return attempts[-1]


def before_starts(text: str) -> str:
    """Return what was logged before the first attempt to start."""
    first = startpatterns.START.search(text)
    return text[: first.start()] if first else text


def decisive(text: str) -> tuple[str, ...]:
    """Return the first errors in *text*, those about damaged data if there are any."""
    errors = _errors(text)
    damage = [line for line in errors if endpatterns.DAMAGE.search(line)]
    return _shown(damage or errors)


def damage(text: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the first errors in *text* that name damaged data, () if none does.

    names: only those with one of these names in them; () for all.  In a file name
    InnoDB writes a hyphen, say, as @002d, which continues the name.
    """
    about = re.compile(
        "|".join(rf"(?<![\w@-]){re.escape(name)}(?![\w@-])" for name in names)
    )
    errors = _errors(text)
    if any(endpatterns.SURROUNDINGS.search(line) for line in errors):
        return ()
    lines = [
        line
        for line in errors
        if endpatterns.DAMAGE.search(line)
        and not endpatterns.MYISAM.search(line)
        and about.search(line)
    ]
    if endpatterns.OUTSIDE.search(text):
        lines = [line for line in lines if not endpatterns.FILES_MISSING.search(line)]
    return _shown(lines)


def complaints(text: str) -> tuple[str, ...]:
    """Return the first lines of *text* about damaged data, of whatever tables.

    Also those of statements that failed, and of damage that was repaired; MyISAM's do
    not count, which does not promise to survive a crash.
    """
    return _shown(
        [
            line
            for line in text.splitlines()
            if endpatterns.COMPLAINT.search(line)
            and endpatterns.DAMAGE.search(line)
            and not endpatterns.MYISAM.search(line)
        ]
    )


def damage_that_ended(text: str) -> tuple[str, ...]:
    """Return the errors that name damaged data, if the running server ended itself.

    text: what a server logged that took queries when the text began.  It ended itself
    if it logged a crash, or if it started again without an orderly shutdown.
    """
    running = before_starts(text)
    again = len(running) < len(text) and not endpatterns.ORDERLY.search(running)
    return damage(running) if again or endpatterns.ENDED_ITSELF.search(running) else ()


def since_start(text: str) -> str:
    """Return what follows the last start in *text*, "" if it shows none."""
    begins = [match.start() for match in startpatterns.START.finditer(text)]
    return text[begins[-1] :] if begins else ""


def crash_of(text: str, session: int) -> tuple[str, ...]:
    """Return what *text* shows of a crash of what served that session, () if nothing.

    session: PostgreSQL's process or, for the others, the connection's number.  A signal
    that no fault of a program raises, as SIGKILL and SIGTERM, is no crash; nor is one
    beside errors about memory, space and the like.
    """
    if endpatterns.SURROUNDINGS.search("\n".join(_errors(text))):
        return ()
    lines = text.splitlines()
    process = re.compile(rf"\(PID {session}\) was terminated by {endpatterns.FAULT}")
    for at, line in enumerate(lines):
        if process.search(line):
            return _shown([line, *lines[at + 1 : at + 2]])
    thread = re.compile(rf"Connection ID \(thread ID\): {session}\b")
    if any(map(thread.search, lines)):
        return _shown(
            [line for line in lines if endpatterns.THREAD_CRASHED.search(line)]
        )
    return ()


def _attempt(text: str, *, last: bool) -> Starts:
    text = startpatterns.REINITIALIZING.split(text)[-1]
    ready = max(
        (found.end() for found in startpatterns.READY.finditer(text)), default=None
    )
    ended = (
        not last
        or endpatterns.ENDED.search(_without_clients(text[ready or 0 :])) is not None
    )
    if ready is not None:
        return _ended_ready(text[ready:]) if ended else Starts(StartOutcome.RUNNING)
    lines = damage(text)
    if not ended and not endpatterns.HOPELESS.search("".join(lines)):
        return Starts(StartOutcome.RUNNING)
    if lines:
        return Starts(StartOutcome.DESTROYED, lines)
    recovering = startpatterns.RECOVERING.search(text)
    errors = decisive(text[recovering.start() :] if recovering else text)
    crashed = endpatterns.START_CRASHED.search(text) or (
        recovering and endpatterns.PANIC.search(text)
    )
    if errors and crashed and not _blameless(text):
        return Starts(StartOutcome.DESTROYED, errors)
    return Starts(StartOutcome.FAILED, errors)


def _ended_ready(text: str) -> Starts:
    """Return what ended a server that took queries before it logged *text*."""
    lines = damage(text)
    if (
        lines
        and endpatterns.ENDED_ITSELF.search(text)
        and not endpatterns.ORDERLY.search(text)
    ):
        return Starts(StartOutcome.DESTROYED, lines)
    return Starts(StartOutcome.FAILED, decisive(text))


def _blameless(text: str) -> bool:
    """Return whether something other than the data may have ended this start."""
    if endpatterns.SURROUNDINGS.search("\n".join(_errors(text))):
        return True
    return bool(
        endpatterns.OUTSIDE.search(text) and endpatterns.FILES_MISSING.search(text)
    )


def _errors(text: str) -> list[str]:
    return [
        line
        for line in _without_clients(text).splitlines()
        if endpatterns.ERROR.search(line) or endpatterns.CRASHED.search(line)
    ]


def _without_clients(text: str) -> str:
    """Return *text* without the lines about clients that were turned away."""
    return "\n".join(
        line
        for line in text.splitlines()
        if endpatterns.PANIC.search(line) or not endpatterns.CLIENT.search(line)
    )


def _shown(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the first of *lines*, each from its severity on, shortened."""
    return tuple(_from_severity(line)[:LINE_CHARS_MAX] for line in lines[:LINES_MAX])


def _from_severity(line: str) -> str:
    found = endpatterns.COMPLAINT.search(line)
    return line[found.start() :].strip() if found else line.strip()
