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

_CONSENT_SUBJECT = "power"


@dataclass(frozen=True, slots=True)
class _Consent(Note):
    """A user's consent to the first cut of a host by a switch.

    host: as the user calls it.  switch: the description that the user agreed to.
    at:   when the consent was stored, in UTC.
    """

    host: str
    switch: str
    at: str


def require_consent(switched: SwitchedHost, *, yes: bool) -> None:
    """Raise UsageError if this switch never cut this host before, unless *yes*.

    The error describes exactly what would be done.  After any change of host or switch
    the next cut counts as the first again.  Raise RunWriteError if remember_consent()
    could not write its note.
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
    stored.make_folder(find_note_path(switched, _CONSENT_SUBJECT).parent)


def remember_consent(switched: SwitchedHost) -> None:
    """Store that the user consented, once the cut is due or done.

    It is not stored earlier: a host that a preflight refuses was never cut.  A kind of
    switch that is not guarded needs no consent.  Raise RunWriteError if that fails.
    """
    if not switched.config.guarded or _has_agreed(switched):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    about = (switched.title, switched.describe(), at)
    write_note(switched, _CONSENT_SUBJECT, _Consent(switched.fingerprint(), *about))


def _has_agreed(switched: SwitchedHost) -> bool:
    return read_note(switched, _CONSENT_SUBJECT, _Consent) is not None
