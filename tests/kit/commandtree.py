"""Every command of dbcheck, as click sees it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dbcheck.cli.root import root

COLUMNS = 80  # of the help that a document shows


def contexts(
    command: click.Command = root,
    name: str = "dbcheck",
    parent: click.Context | None = None,
) -> Iterator[click.Context]:
    """Yield the context of each command, also of those that only hold others."""
    context = command.make_context(
        name, [], parent, resilient_parsing=True, terminal_width=COLUMNS
    )
    yield context
    for each, inner in inner_commands(context):
        yield from contexts(inner, each, context)


def inner_commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands right below one, each by its name."""
    command = context.command
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None, name
        yield name, inner


def options_of(context: click.Context) -> Iterator[tuple[click.Option, str, str]]:
    """Yield each option of a command: it, how it is written, what it means."""
    for option in context.command.get_params(context):
        if isinstance(option, click.Option):
            record = option.get_help_record(context)
            if record is not None:  # None: it is hidden
                yield option, *record
