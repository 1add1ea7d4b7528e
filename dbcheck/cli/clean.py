"""dbcheck clean: remove what dbcheck left on a target or on a witness."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dbcheck.cli import options
from dbcheck.cli.say import say

if TYPE_CHECKING:
    from dbcheck.inventory.entry import Entry


@click.command("clean")
@click.argument("name", required=False)
@options.inventory()
@options.target(required=False)
@options.witness(required=False)
@click.option("--run", "run_ids", metavar="ID", multiple=True, help="Runs to remove.")
def command(run_ids: tuple[str, ...], accept_new_host_key: bool, **_: Any) -> None:
    """Remove dbcheck's tables from the target, and the runs --run from the witness.

    They are those of the host NAME in an inventory, or --target and --witness. Only
    what dbcheck made is touched; run folders on this machine stay.
    """
    from dbcheck.cli.entries import chosen
    from dbcheck.errors import UsageError
    from dbcheck.runs import require_run_id

    entry = chosen(click.get_current_context())
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
    from dbcheck.cli import rig

    dropped = rig.engine(entry.target, entry.password).drop()
    for name in dropped:
        say(f"dropped {name}")
    if not dropped:
        say(f"nothing of dbcheck's is on {entry.target}")


def _remove(entry: Entry, run_ids: Sequence[str], accept_new_host_key: bool) -> None:
    from dbcheck.cli import rig
    from dbcheck.witness.window import WindowLimits

    opened = rig.entry_witness(
        entry, WindowLimits(), accept_new_host_key=accept_new_host_key
    )
    with contextlib.closing(opened):
        for run_id in run_ids:
            opened.remove(run_id)
            say(f"removed run {run_id} from {entry.witness}")
