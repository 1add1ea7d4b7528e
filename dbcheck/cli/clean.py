"""dbcheck clean: remove what dbcheck left on a target or on a witness."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dbcheck.cli import options
from dbcheck.cli.say import say

if TYPE_CHECKING:
    from dbcheck.hosts.host import TargetHost
    from dbcheck.inventory.entry import Entry
    from dbcheck.ports.engine import Engine


@click.command("clean")
@click.argument("name", required=False)
@options.inventory()
@options.target(required=False)
@click.option(
    "--target-host",
    metavar="URL",
    help="ssh://user@host:port of the target's host, or local: if it is this one: "
    "removes the canaries that a client left there which was killed.",
)
@options.witness(required=False)
@click.option("--run", "run_ids", metavar="ID", multiple=True, help="Runs to remove.")
def command(run_ids: tuple[str, ...], accept_new_host_key: bool, **_: Any) -> None:
    """Remove dbcheck's tables and canaries from the target, runs from the witness.

    They are those of the host NAME in an inventory, or --target, --target-host and
    --witness with --run. Only what dbcheck made is touched; run folders on this machine
    stay.
    """
    from dbcheck.cli.entries import chosen
    from dbcheck.errors import UsageError
    from dbcheck.runs import require_run_id

    entry = chosen(click.get_current_context())
    if entry.host and not entry.target:
        raise UsageError(
            "--target-host needs --target",
            hint="Give the server's URL: it says where its directories are.",
        )
    if not entry.target and not run_ids:
        raise UsageError(
            "nothing to clean",
            hint="Give NAME or --target, or --witness and --run.",
        )
    if run_ids and not entry.witness:
        raise UsageError("--run needs --witness", hint="Give the witness's URL.")
    wanted = [require_run_id(run_id) for run_id in run_ids]
    if entry.target:
        _drop(entry)
    if wanted:
        _remove(entry, wanted, accept_new_host_key)


def _drop(entry: Entry) -> None:
    """Drop the tables, also where the canaries cannot be removed."""
    from dbcheck.cli import rig
    from dbcheck.errors import HostError

    engine, host = rig.engine(entry.target, entry.password), rig.entry_host(entry)
    failure: HostError | None = None
    if host is not None:
        with contextlib.closing(host):
            try:  # before the tables, which show what directories there are
                _clear(host, engine)
            except HostError as error:
                failure = error
    dropped = engine.drop()
    for name in dropped:
        say(f"dropped {name}")
    if not dropped:
        say(f"nothing of dbcheck's is on {entry.target}")
    if failure is not None:
        raise failure


def _clear(host: TargetHost, engine: Engine) -> None:
    """Remove canaries from wherever a run may have put them; raise HostError.

    A run puts them beside one of the places on each volume, or inside it.
    """
    from dbcheck.campaign.host import data_directory, require_own_data
    from dbcheck.core.places import DATA
    from dbcheck.errors import HostError
    from dbcheck.ports.engine import Shape

    server = engine.facts()
    directory = data_directory(server)
    require_own_data(host, directory, server, lambda: "")  # nothing is written to it
    each = dict.fromkeys(place for shape in Shape for place in engine.places(shape))
    places = [
        place if place.name == DATA else replace(place, name=f"{place.name} {number}")
        for number, place in enumerate(each, start=1)
    ]
    facts = host.facts(directory, places)
    paths = dict.fromkeys(
        path for volume in facts.volumes for path in volume.places.values()
    )
    removed: dict[str, None] = {}
    kept: dict[str, str] = {}
    for path in paths:
        cleared = host.clear_canaries(path)
        removed |= dict.fromkeys(cleared.removed)
        kept |= cleared.kept
    for folder in removed:
        say(f"removed the canaries in {folder} from {host.place}")
    if not removed and not kept:
        say(f"no canaries are on {host.place}")
    if kept:
        raise HostError(
            f"{host.place}: canaries stay: {'; '.join(kept.values())}",
            hint="Wait until the run that uses them is over, or end its client. Look "
            "by hand at a folder that holds anything else.",
        )


def _remove(entry: Entry, run_ids: Sequence[str], accept_new_host_key: bool) -> None:
    from dbcheck import clientkey
    from dbcheck.cli import rig
    from dbcheck.witness.window import WindowLimits

    opened = rig.entry_witness(
        entry, WindowLimits(), accept_new_host_key=accept_new_host_key
    )
    with contextlib.closing(opened):
        for run_id in run_ids:
            opened.remove(run_id)
            clientkey.forget(run_id)
            say(f"removed run {run_id} from {entry.witness}")
