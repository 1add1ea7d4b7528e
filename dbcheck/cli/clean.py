"""dbcheck clean: remove what dbcheck left on a target or on a witness."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dbcheck.cli import options
from dbcheck.cli.say import say

if TYPE_CHECKING:
    from dbcheck.hosts.host import Cleared
    from dbcheck.inventory.entry import Entry


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
    from dbcheck.campaign.clearing import clear_canaries
    from dbcheck.cli import assemble
    from dbcheck.errors import HostError

    engine, host = (
        assemble.engine(entry.target, entry.password),
        assemble.entry_host(entry),
    )
    failure: HostError | None = None
    if host is not None:
        with contextlib.closing(host):
            try:  # before the tables, which show what directories there are
                _report(host.place, clear_canaries(host, engine))
            except HostError as error:
                failure = error
    dropped = engine.drop()
    for name in dropped:
        say(f"dropped {name}")
    if not dropped:
        say(f"nothing of dbcheck's is on {entry.target}")
    if failure is not None:
        raise failure


def _report(place: str, cleared: Cleared) -> None:
    """Print what was removed; raise HostError if canaries stay."""
    from dbcheck.errors import HostError

    for folder in cleared.removed:
        say(f"removed the canaries in {folder} from {place}")
    if not cleared.removed and not cleared.kept:
        say(f"no canaries are on {place}")
    if cleared.kept:
        raise HostError(
            f"{place}: canaries stay: {'; '.join(cleared.kept.values())}",
            hint="Wait until the run that uses them is over, or end its client. Look "
            "by hand at a folder that holds anything else.",
        )


def _remove(entry: Entry, run_ids: Sequence[str], accept_new_host_key: bool) -> None:
    from dbcheck import clientkey
    from dbcheck.cli import assemble
    from dbcheck.witness.window import WindowLimits

    opened = assemble.entry_witness(
        entry, WindowLimits(), accept_new_host_key=accept_new_host_key
    )
    with contextlib.closing(opened):
        for run_id in run_ids:
            opened.remove(run_id)
            clientkey.forget(run_id)
            say(f"removed run {run_id} from {entry.witness}")
