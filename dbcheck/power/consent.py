"""The first cut of a host by a switch has to be confirmed with --yes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.power.switched_host import (
    Note,
    SwitchedHost,
    find_note_path,
    read_note,
    write_note,
)
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


def require_consent(switched: SwitchedHost, *, yes: bool) -> None:
    """Raise UsageError if this switch never cut this host before, unless *yes*.

    The error describes exactly what would be done.  Any change of host or switch makes
    the next cut a first one again.  Raise RunWriteError if remember_consent() could not
    write.
    """
    if _has_agreed(switched):
        return
    if not yes:
        raise UsageError(
            f"nothing was cut. No earlier cut of {switched.title} by this switch is on "
            f"record. dbcheck would {switched.describe()}",
            id=ErrorId.FIRST_CUT_NEEDS_CONSENT,
            hint="If this is correct, repeat the command with --yes.",
        )
    stored.make_folder(find_note_path(switched, _SUBJECT).parent)


def remember_consent(switched: SwitchedHost) -> None:
    """Store that require_consent() was passed, once the cut is due or done.

    Not before: what a preflight refuses was never cut.  A kind that is not guarded
    needs no consent.  Raise RunWriteError if that fails.
    """
    if not switched.config.guarded or _has_agreed(switched):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    about = (switched.title, switched.describe(), at)
    write_note(switched, _SUBJECT, _Consent(switched.fingerprint(), *about))


def _has_agreed(switched: SwitchedHost) -> bool:
    return read_note(switched, _SUBJECT, _Consent) is not None
