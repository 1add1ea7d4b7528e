"""dbcheck init: write an inventory to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import ANY_PATH, Verb, grouped, option
from dbcheck.cli.flags.newhost import NewHostOptions, is_interactive
from dbcheck.cli.flags.target import INVENTORY
from dbcheck.cli.say import say
from dbcheck.config import files
from dbcheck.inventory.newhost import INVENTED, MANUAL, NAME, NewHost, format_inventory
from dbcheck.runner.new_inventory import (
    format_command,
    require_new,
    write_new_file,
    write_new_inventory,
)


@click.command("init", cls=Verb)
@click.argument("file", type=ANY_PATH, default=Path(INVENTORY))
@grouped
@option(
    "--example",
    is_flag=True,
    help="Write an example with invented hosts and all variables, with comments; with "
    "--switch one host and all about that switch.",
)
def command(file: Path, described: NewHostOptions, example: bool) -> None:
    """Write an inventory to FILE, by default inventory.yml; replaces nothing.

    \b
    dbcheck init                                 asks, on a terminal
    dbcheck init --target URL --witness URL --target-host URL --switch manual
    dbcheck init --example                       a commented example to edit

    What is not given is asked for. Without a terminal, and without --target, the
    example is written. No secret belongs in the file, nor in a URL.
    """
    require_new(file)
    if example and described.describes_host:
        raise UsageError(
            "--example writes invented hosts",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave it out to write the host of the other options.",
        )
    if example or not (described.describes_host or is_interactive()):
        _write_example(file, described.switch)
        return
    host = described.ask_for_rest() if is_interactive() else described.make_host()
    write_new_inventory(file, host)
    say(f"wrote {file}: the host {host.name}, switch: {host.switch}", "")
    say(*_list_next_steps(file, host))


def _write_example(file: Path, switch: str | None) -> None:
    if switch is None:
        text = files.read_inventory_example()
    elif switch == MANUAL:
        text = format_inventory(INVENTED)
    else:
        text = files.make_switch_inventory(switch)
    write_new_file(file, text)
    say(
        f"wrote {file}, with invented hosts. Put your own in their place, then:",
        "",
        f"  {format_command(file, 'power', 'state', NAME)}",
    )


def _list_next_steps(file: Path, host: NewHost) -> list[str]:
    """Return what to do with the new inventory, each command as it is typed."""
    steps = []
    if host.has_recipe:
        steps = [
            f"Put the values of your switch into {file}, as the guide explains",
            f"(docs/guides/switches.md#{host.switch}). See whether its state is read:",
            "",
            f"  {format_command(file, 'power', 'state', host.name)}",
            "",
        ]
    return [
        *steps,
        "Its account: run what this prints as an administrator of the server:",
        "",
        f"  {format_command(file, 'grants', host.name, '--control')}",
        "",
        "What is unsafe already? This changes nothing:",
        "",
        f"  {format_command(file, 'audit', host.name)}",
        "",
        "The whole check of a new server, step by step:",
        "",
        f"  {format_command(file, 'golive', host.name)}",
    ]
