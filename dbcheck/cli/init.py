"""dbcheck init: write a commented inventory to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import ANY_PATH, Verb, option
from dbcheck.cli.flags.target import INVENTORY
from dbcheck.cli.say import say
from dbcheck.config import files
from dbcheck.runs.stored import open_private


@click.command("init", cls=Verb)
@click.argument("file", type=ANY_PATH, default=Path(INVENTORY))
@option(
    "--switch",
    type=click.Choice(files.list_switch_names()),
    metavar="NAME",
    help="One host with this switch, and how to set it up: "
    f"{', '.join(files.list_switch_names())}.",
)
def command(file: Path, switch: str | None) -> None:
    """Write a commented inventory to FILE, by default inventory.yml; replaces nothing.

    It holds invented hosts: edit it, then try dbcheck power state HOST.
    """
    text = (
        files.make_switch_inventory(switch)
        if switch
        else files.read_inventory_example()
    )
    try:
        with open_private(file, "xb") as new:
            new.write(text.encode())
    except FileExistsError:
        raise UsageError(
            f"{file} already exists",
            id=ErrorId.FILE_EXISTS,
            hint="Name another file, or remove that one.",
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}",
            id=ErrorId.FILE_NOT_WRITABLE,
            hint="Name a file in a folder where you may write, or make room.",
        ) from None
    say(f"wrote {file}; edit it, then run: dbcheck power state HOST")
