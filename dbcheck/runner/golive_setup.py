"""Reads what a go-live check is about, and finds what changed since a step was done.

A step that is done is not repeated while what it depends on stays as it was: the
server, its version and settings, the host, its kernel, filesystems and drives, the
switch and the witness.  Other data than before are another server: nothing that was
shown holds for it, so the check ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import TargetChanged
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.inventory.entry import Entry
from dbcheck.model.golive import StepId
from dbcheck.model.host import TargetFacts, Volume
from dbcheck.model.server import ServerFacts, find_difference_of_data
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import TargetHost
from dbcheck.rows.table import LEDGER
from dbcheck.runner import assemble

# The kinds of facts: each name of a setup begins with one of them.
IDENTITY, SERVER, SETTING = "identity ", "server", "setting "
HOST, KERNEL, FILESYSTEM, DRIVES = "host", "kernel", "filesystem of ", "drives of "
TARGET, WITNESS, SWITCH, REACHED = "target", "witness", "switch", "reached at"
_STORAGE = (HOST, FILESYSTEM, DRIVES)
_ALL = (TARGET, WITNESS, SWITCH, REACHED, SERVER, SETTING, KERNEL, *_STORAGE)
# What each step depends on.
DEPENDS_ON: Mapping[StepId, tuple[str, ...]] = {
    StepId.WITNESS: (TARGET, WITNESS),
    StepId.AUDIT: (TARGET, REACHED, SERVER, SETTING, KERNEL, *_STORAGE),
    StepId.FLUSHES: (TARGET, REACHED, SERVER, SETTING, KERNEL, *_STORAGE),
    StepId.POWER: (TARGET, REACHED, SWITCH, *_STORAGE),
    StepId.FIRST_CUT: _ALL,
    StepId.CAMPAIGN: _ALL,
    StepId.PAPERS: _ALL,
}
# The facts that a report names, in its order.
SHOWN = (SERVER, HOST, KERNEL, FILESYSTEM, DRIVES)


def read_setup(entry: Entry) -> dict[str, str]:
    """Read the setup of *entry* and its server; raise EngineError or HostError.

    Nothing is changed.  The host is left out if it is not to be asked.
    """
    engine = assemble.make_engine(entry.target, entry.password)
    server = engine.facts()
    setup = {**list_wiring(entry), **_list_server_facts(server)}
    setup[f"{SETTING}of roles and databases"] = _describe_scoped(engine, server)
    host = assemble.make_host(entry)
    if host is not None:
        with closing(host):
            setup |= _read_host_facts(engine, host, server)
    return setup


def list_wiring(entry: Entry) -> dict[str, str]:
    """Return what the inventory says; nothing is connected."""
    return {
        TARGET: entry.target,
        WITNESS: entry.witness,
        REACHED: entry.host,
        SWITCH: entry.switched_host.fingerprint(),
    }


def require_same_data(
    before: Mapping[str, str], now: Mapping[str, str], target: str
) -> None:
    """Raise TargetChanged if the server has other data than those checked before."""
    if text := find_difference_of_data(_select_identity(before), _select_identity(now)):
        raise TargetChanged(
            f"{target} is not the server that this check was begun on: {text}",
            id=ErrorId.TARGET_CHANGED,
            hint="If the inventory names another server by mistake, name the first one"
            " again. Else begin a new check: dbcheck golive NAME.",
        )


def find_changes(
    step: StepId, before: Mapping[str, str], now: Mapping[str, str]
) -> list[str]:
    """Return what a step depends on and has changed, a clause for each.

    A fact that is not known of both times is not compared.
    """
    before, now = _split_places(before), _split_places(now)
    changed: dict[str, None] = {}
    for name in sorted(before.keys() & now.keys()):
        was, value = before[name], now[name]
        if was == value or not name.startswith(DEPENDS_ON[step]):
            continue
        if name == SWITCH:
            text = "the switch is another one, or is set up otherwise"
        else:
            text = f"{name} was {was or '(empty)'} and is {value or '(empty)'}"
        changed[text] = None
    return list(changed)


def _split_places(setup: Mapping[str, str]) -> dict[str, str]:
    """Return a setup with a fact for each place; those on one filesystem share one.

    So a log that was moved to a filesystem of its own is compared, too.
    """
    found: dict[str, str] = {}
    for name, value in setup.items():
        kind = next(
            (kind for kind in (FILESYSTEM, DRIVES) if name.startswith(kind)), ""
        )
        places = name.removeprefix(kind).split(", ") if kind else [name]
        found |= {f"{kind}{place}": value for place in places}
    return found


def list_shown_facts(setup: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that a report names.

    Where all places of the server lie on one filesystem, they are not listed.
    """
    found: dict[str, str] = {}
    for kind in SHOWN:
        is_of_places = kind.endswith(" ")
        names = [
            name
            for name in sorted(setup)
            if (name.startswith(kind) if is_of_places else name == kind)
        ]
        for name in names:
            is_only = is_of_places and len(names) == 1
            found[kind.removesuffix(" of ") if is_only else name] = setup[name]
    return found


def _select_identity(setup: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(IDENTITY): value
        for name, value in setup.items()
        if name.startswith(IDENTITY)
    }


def _list_server_facts(server: ServerFacts) -> dict[str, str]:
    return {
        **{f"{IDENTITY}{name}": value for name, value in server.identity.items()},
        SERVER: f"{server.product} {server.version}",
        **{f"{SETTING}{name}": value for name, value in server.settings.items()},
    }


def _describe_scoped(engine: Engine, server: ServerFacts) -> str:
    """Return the settings that hold for one role or database.

    Those that dbcheck does not know are left out: their values may be secret.
    """
    return "; ".join(
        sorted(
            f"{each.whose}: {name} = {value}"
            for each in engine.other_settings()
            for name, value in each.settings.items()
            if name in server.settings
        )
    )


def _read_host_facts(
    engine: Engine, host: TargetHost, server: ServerFacts
) -> dict[str, str]:
    facts = read_own_facts(host, server, engine.places((LEDGER,)))
    kernel = host.readings(facts.volumes).text("", "/proc/sys/kernel/osrelease")
    found = {KERNEL: kernel} if kernel else {}
    return {**found, **dict(_list_host_facts(facts))}


def _list_host_facts(facts: TargetFacts) -> Iterator[tuple[str, str]]:
    machine = f" (machine id {facts.machine_id})" if facts.machine_id else ""
    yield HOST, f"{facts.hostname}{machine}"
    for volume in facts.volumes:
        places = ", ".join(sorted(filter(_has_stable_name, volume.places)))
        if places:
            yield f"{FILESYSTEM}{places}", _describe_filesystem(volume)
            yield f"{DRIVES}{places}", _describe_drives(volume)


def _has_stable_name(place: str) -> bool:
    """Return True if the place keeps this name; names with a number may change."""
    return not place[-1].isdecimal() and not place.endswith(" files")


def _describe_filesystem(volume: Volume) -> str:
    return " ".join(
        filter(None, (volume.filesystem, volume.filesystem_uuid, volume.mount_options))
    )


def _describe_drives(volume: Volume) -> str:
    """Return the drives without their device names, which a boot may change."""
    drives = (
        ", ".join(
            filter(
                None,
                (
                    drive.model or "unknown model",
                    drive.serial and f"serial {drive.serial}",
                    drive.firmware and f"firmware {drive.firmware}",
                    drive.write_cache,
                ),
            )
        )
        for drive in volume.drives
    )
    return "; ".join(sorted(drives)) or "not known"
