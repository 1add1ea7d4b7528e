"""dbcheck init: write a commented inventory to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from dbcheck import files
from dbcheck.cli.entry_options import INVENTORY
from dbcheck.cli.groups import Verb
from dbcheck.cli.say import say
from dbcheck.errors import UsageError
from dbcheck.stored import private


@click.command("init", cls=Verb)
@click.argument("file", type=click.Path(path_type=Path), default=Path(INVENTORY))
def command(file: Path) -> None:
    """Write a commented inventory to FILE, by default inventory.yml; replaces nothing.

    It holds invented hosts: edit it, then try dbcheck power state HOST.
    """
    try:
        with private(file, "xb") as new:
            new.write(files.inventory_example().encode())
    except FileExistsError:
        raise UsageError(
            f"{file} already exists", hint="Name another file, or remove that one."
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    say(f"wrote {file}; edit it, then run: dbcheck power state HOST")
