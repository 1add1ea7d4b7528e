"""dbcheck lab fetch: a server that the distribution does not have."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dbcheck.cli.groups import Verb
from dbcheck.cli.say import say
from dbcheck.lab import programs
from dbcheck.lab.fetch import fetch as fetch_into
from dbcheck.lab.fetch_myrocks import fetch as fetch_myrocks


@click.command("fetch", cls=Verb)
@click.argument("server", type=click.Choice(("mysql", "myrocks")))
def fetch(server: str) -> None:
    """Fetch MySQL or MyRocks for labs, unless this machine has it.

    No release of Debian has MySQL: "mysql" takes the server of Debian unstable (60 MB).
    "myrocks" takes the storage engine MyRocks of the MariaDB that is installed (3 MB),
    without the service that its package brings. Both come from the mirror that this
    machine uses, and apt checks them with Debian's keys. Nothing is installed; it needs
    no root.
    """
    found = _mysql() if server == "mysql" else _myrocks()
    say(f"{server}: {found}")


def _mysql() -> Path | None:
    found = programs.find_mysqld()
    if found is None:
        if os.environ.get(programs.MYSQLD_VARIABLE):
            raise programs.misnamed(programs.MYSQLD_VARIABLE, "mysqld")
        folder = programs.mysql_folder()
        say(f"fetching a MySQL server (60 MB) into {folder}")
        fetch_into(folder)
        found = programs.find_mysqld()
    return found


def _myrocks() -> Path | None:
    found = programs.find_rocksdb()
    if found is None:
        programs.require("mariadbd")
        folder = programs.myrocks_folder()
        say(f"fetching MariaDB's MyRocks (3 MB) into {folder}")
        fetch_myrocks(folder)
        found = programs.find_rocksdb()
    return found
