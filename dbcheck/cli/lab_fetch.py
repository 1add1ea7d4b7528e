"""dbcheck lab fetch: a server that the distribution does not have."""

from __future__ import annotations

import os

import click

from dbcheck.cli.groups import Verb
from dbcheck.cli.say import say
from dbcheck.errors import UsageError
from dbcheck.lab import programs
from dbcheck.lab.fetch import fetch as fetch_into


@click.command("fetch", cls=Verb)
@click.argument("server", type=click.Choice(("mysql",)))
def fetch(server: str) -> None:
    """Fetch a MySQL server for labs, unless this machine has one.

    No release of Debian has MySQL. This takes the server of Debian unstable (60 MB)
    from the mirror that this machine uses, and apt checks it with Debian's keys.
    Nothing is installed; it needs no root.
    """
    found = programs.find_mysqld()
    if found is None:
        if named := os.environ.get(programs.MYSQLD_VARIABLE):
            raise UsageError(
                f"{programs.MYSQLD_VARIABLE} names {named}, which is not a program",
                hint="Unset it, or set it to the path of a mysqld.",
            )
        folder = programs.mysql_folder()
        say(f"fetching a MySQL server (60 MB) into {folder}")
        fetch_into(folder)
        found = programs.find_mysqld()
    say(f"{server}: {found}")
