"""The first cut of a host by a switch is asked for twice, once with --yes."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from dbcheck.errors import UsageError
from dbcheck.inventory.entry import Entry, PowerPlan
from dbcheck.power.command import shown
from dbcheck.state import state_folder


def require(entry: Entry, *, yes: bool) -> None:
    """Return if this switch cut this host before, or if *yes*, which is remembered.

    Else raise UsageError, which tells exactly what would be done.  Whatever changes
    in the entry's host or switch makes it a first time again.
    """
    path = note_path(entry, "power")
    if path.exists():
        return
    name = entry.name or entry.target
    if not yes:
        raise UsageError(
            f"nothing was cut. This switch has never cut {name} before. "
            "It would do this: " + words(entry.power, entry.host),
            hint="If this is correct, repeat the command with --yes.",
        )
    note = {"host": name, "switch": words(entry.power, entry.host), "at_s": time.time()}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps(note) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def words(plan: PowerPlan, host: str) -> str:
    """Return what a cut and a restore by *plan* are, in words without any secret."""
    after = f"then, after {plan.off_s:g} s or more,"
    if plan.kind == "fence":
        options = "".join(f" {k}={v}" for k, v in sorted(plan.options.items()))
        return f"run {plan.agent}{options} with action=off, {after} with action=on"
    if plan.kind == "exec":
        back = f"{after} `{shown(plan.restore)}`" if plan.restore else "nothing more"
        return f"run `{shown(plan.cut)}`, {back}"
    if plan.kind == "sysrq":
        return f"{host} resets itself at once, without a sync"
    return plan.kind


def note_path(entry: Entry, subject: str) -> Path:
    """Return where the client keeps what it knows of this switch of this host.

    The name comes from the data that words() describes, so another wording of the
    prompt forgets nothing.
    """
    plan = entry.power
    options = sorted(plan.options.items())
    switch = (
        *(plan.kind, plan.lab, plan.agent, options),
        *(plan.cut, plan.restore, plan.off_s),
    )
    text = json.dumps((entry.name, entry.target, entry.host, *switch))
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    return state_folder(subject) / f"{digest}.json"
