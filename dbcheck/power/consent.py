"""The first cut of a host by a switch is asked for twice, once with --yes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from dbcheck import stored
from dbcheck.errors import UsageError
from dbcheck.inventory.entry import Entry, PowerPlan
from dbcheck.power import notes
from dbcheck.power.command import shown

_SUBJECT = "power"


@dataclass(frozen=True, slots=True)
class _Consent(notes.Note):
    """That a user agreed to a cut which then came.

    host: as the user calls it.  switch: what was agreed to, in words.  at: when, UTC.
    """

    host: str
    switch: str
    at: str


def require(entry: Entry, *, yes: bool) -> None:
    """Return if this switch cut this host before, or if *yes*.

    Else raise UsageError, which tells exactly what would be done.  Whatever changes
    in the entry's host or switch makes it a first time again.  Raise RunWriteError if
    remember() could not write.
    """
    if _agreed(entry):
        return
    name = entry.name or entry.target
    if not yes:
        raise UsageError(
            f"nothing was cut. There is no note that this switch cut {name} before. "
            "It would do this: " + words(entry.power, entry.host),
            hint="If this is correct, repeat the command with --yes.",
        )
    stored.make_folder(notes.path_of(entry, _SUBJECT).parent)


def remember(entry: Entry) -> None:
    """Store that require() was passed, once the cut is due or done.

    Not before: what a preflight refuses was never cut.  A human at the plug and a lab
    need no consent.  Raise RunWriteError if that fails.
    """
    plan = entry.power
    if plan.attended or plan.kind == "lab" or _agreed(entry):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    about = (entry.name or entry.target, words(plan, entry.host), at)
    notes.write(entry, _SUBJECT, _Consent(notes.fingerprint(entry), *about))


def words(plan: PowerPlan, host: str) -> str:
    """Return what is run for a cut and a restore by *plan*, without any secret."""
    after = f"then, after {plan.off_s:g} s or more,"
    if plan.kind == "fence":
        options = "".join(f" {k}={v}" for k, v in sorted(plan.options.items()))
        options += "".join(f" {name}=***" for name in sorted(plan.secrets))
        return f"run {plan.agent}{options} with action=off, {after} with action=on"
    if plan.kind == "exec":
        back = f"{after} `{shown(plan.restore)}`" if plan.restore else "nothing more"
        state = f"; `{shown(plan.state)}` says if it is on" if plan.state else ""
        return f"run `{shown(plan.cut)}`, {back}{state}"
    if plan.kind == "sysrq":
        return f"{host} resets itself at once, without a sync"
    return plan.kind


def _agreed(entry: Entry) -> bool:
    return notes.read(entry, _SUBJECT, _Consent) is not None
