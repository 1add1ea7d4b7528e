"""Plain lines on stdout and stderr: no other module writes there without rich."""

from __future__ import annotations

import click
from click.exceptions import NoArgsIsHelpError

from dbcheck.base.errors import DbcheckError
from dbcheck.base.text import quoted, visible


def say(*lines: str, err: bool = False) -> None:
    """Print *lines* on stdout, or on stderr if *err*; each stays one line."""
    click.echo("\n".join(map(visible, lines)), err=err)


def say_error(error: DbcheckError) -> None:
    """Print an expected failure on stderr with its id, and what to do about it."""
    click.echo(f"dbcheck: {quoted(str(error))} [{error.id}]", err=True)
    if error.hint:
        click.echo(f"  {quoted(error.hint)}", err=True)


def say_misuse(error: click.ClickException) -> None:
    """Print on stderr what is wrong with the command line; it may quote an argument.

    A command without any argument prints its help, as it is.
    """
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        more = f"Try '{context.command_path} --help' for help."
        say(*context.get_usage().split("\n"), more, "", err=True)
    click.echo(f"Error: {quoted(error.format_message())}", err=True)
