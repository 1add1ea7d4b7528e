"""The interlocks of an unattended switch, with all that they need to look at."""

from __future__ import annotations

import time
from collections.abc import Mapping

from dbcheck.cli import rig
from dbcheck.core.bystanders import Bystanders
from dbcheck.errors import EngineError, UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.ports.engine import Engine
from dbcheck.power import consent, interlock
from dbcheck.remote.addresses import place

# A connection that was just closed is seen for a moment.
_LOOKS, _LOOK_S = 10, 0.2


def guard(entry: Entry, engine: Engine, *, yes: bool, i_know: bool) -> str:
    """Return in words what was recognised; raise UsageError if a cut is refused.

    A human at the plug and a lab need no guard.
    """
    if entry.power.attended or entry.power.kind == "lab":
        return ""
    require_sole(entry)
    target = rig.power_target(entry)
    seen = target.identity() if target else None
    name = entry.name or entry.target
    interlock.require_elsewhere(name, seen)
    server, found = _look(engine, i_know=i_know)
    said = ""
    if entry.name:
        said = interlock.require_host(name, entry.expected, seen, server)
    where = place(entry.target)
    addresses = frozenset[str]() if where.here else where.addresses
    interlock.require_address(name, seen, addresses, i_know=i_know)
    interlock.require_alone(name, found, i_know=i_know)
    consent.require(entry, yes=yes)
    return said


def require_passable(entry: Entry) -> None:
    """Raise UsageError if no cut of this switch could ever pass.

    A cut of a supply passes only if its time without power is known, or if the canaries
    on the host see the drive's own cache lost (core.timeoff).
    """
    plan, cut_class = entry.power, entry.power.cut_class
    if plan.kind != "exec" or plan.restore or entry.host:
        return
    if cut_class is None or cut_class.keeps_power:
        return
    name = f"host {entry.name}: " if entry.name else ""
    raise UsageError(
        f"{name}no cut by this switch could pass: it is declared to cut the class "
        f"{cut_class.value!r}, and without a restore command nothing measures for how "
        "long the power was off",
        hint="Add the command that gives the power back (--restore-command, or "
        "dbcheck_power_restore). If it comes back by itself, add --target-host (or "
        "dbcheck_ask_host): the canaries on that host may show that the drive's own "
        "cache was lost.",
    )


def require_sole(entry: Entry) -> None:
    """Raise UsageError if the switch of *entry* may be another host's as well."""
    if entry.doubt:
        raise UsageError(
            f"host {entry.name} is not cut: {entry.doubt}",
            hint="Put that host right, or remove it: its switch might be this one's.",
        )


def _look(engine: Engine, *, i_know: bool) -> tuple[Mapping[str, str], Bystanders]:
    """Return the server's identity and its other users."""
    try:
        server = engine.facts().identity
        found = engine.bystanders()
        for _ in range(_LOOKS):
            if not found.connections or i_know:
                break
            time.sleep(_LOOK_S)
            found = engine.bystanders()
    except EngineError as error:
        if not i_know:
            raise EngineError(
                f"what the server holds cannot be seen: {error}",
                hint=f"Start it, or add {interlock.I_KNOW} if all of it may go.",
            ) from None
        return {}, Bystanders((), 0)
    return server, found
