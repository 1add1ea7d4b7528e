"""The first cut of a host by a switch has to be confirmed with --yes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.power.wiring import Note, Wiring, find_note_path, read_note, write_note
from dbcheck.runs import stored

_SUBJECT = "power"


@dataclass(frozen=True, slots=True)
class _Consent(Note):
    """A user's consent to a cut that then came.

    host: as the user calls it.  switch: what was agreed to, as it was described.
    at:   when, UTC.
    """

    host: str
    switch: str
    at: str


def require_consent(wiring: Wiring, *, yes: bool) -> None:
    """Raise UsageError if this switch never cut this host before, unless *yes*.

    The error describes exactly what would be done.  Any change of the wiring makes the
    next cut a first one again.  Raise RunWriteError if remember_consent() could not
    write.
    """
    if _has_agreed(wiring):
        return
    if not yes:
        raise UsageError(
            f"nothing was cut. No earlier cut of {wiring.title} by this switch is on "
            f"record. dbcheck would {wiring.describe()}",
            id=ErrorId.FIRST_CUT_NEEDS_CONSENT,
            hint="If this is correct, repeat the command with --yes.",
        )
    stored.make_folder(find_note_path(wiring, _SUBJECT).parent)


def remember_consent(wiring: Wiring) -> None:
    """Store that require_consent() was passed, once the cut is due or done.

    Not before: what a preflight refuses was never cut.  A kind that is not guarded
    needs no consent.  Raise RunWriteError if that fails.
    """
    if not wiring.plan.guarded or _has_agreed(wiring):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    about = (wiring.title, wiring.describe(), at)
    write_note(wiring, _SUBJECT, _Consent(wiring.fingerprint(), *about))


def _has_agreed(wiring: Wiring) -> bool:
    return read_note(wiring, _SUBJECT, _Consent) is not None
