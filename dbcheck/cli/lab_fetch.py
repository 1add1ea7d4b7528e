"""dbcheck lab fetch: a server that the distribution does not have."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dbcheck.cli.flags.groups import Verb
from dbcheck.cli.say import say
from dbcheck.lab import programs
from dbcheck.lab.fetch import fetch as fetch_into
from dbcheck.lab.fetch_mariadb import GALERA, MYROCKS, Part
from dbcheck.lab.fetch_mariadb import fetch as fetch_part
from dbcheck.lab.fetch_patroni import fetch as fetch_patroni


@click.command("fetch", cls=Verb)
@click.argument("server", type=click.Choice(("mysql", "myrocks", "galera", "patroni")))
def fetch(server: str) -> None:
    """Fetch MySQL, MyRocks, Galera or Patroni for labs.

    What this machine has already is not fetched.

    No release of Debian has MySQL: "mysql" takes the server of Debian unstable (60 MB).
    "myrocks" takes the storage engine MyRocks of the MariaDB that is installed (3 MB),
    without the service that its package brings; "galera" takes what makes a cluster of
    that MariaDB (7 MB). "patroni" takes Patroni and etcd, without their services (9
    MB). All come from the mirror that this machine uses, and apt checks them with
    Debian's keys. Nothing is installed. It needs no root; but fetch Patroni as root, as
    its labs run as root.
    """
    say(f"{server}: {_FETCHED[server]()}")


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
    if programs.find_rocksdb() is None:
        _fetch_part(MYROCKS, "MyRocks (3 MB)", programs.myrocks_folder())
    return programs.find_rocksdb()


def _galera() -> Path | None:
    wanted = (programs.GALERA, *programs.TRANSFER)
    if not all(map(programs.find_galera, wanted)):
        _fetch_part(GALERA, "Galera (7 MB)", programs.galera_folder())
    return programs.find_galera(programs.GALERA)


def _fetch_part(part: Part, name: str, folder: Path) -> None:
    programs.require("mariadbd")
    say(f"fetching MariaDB's {name} into {folder}")
    fetch_part(part, folder)


def _patroni() -> Path | None:
    if not all(map(programs.find_patroni, programs.PATRONI)):
        folder = programs.patroni_folder()
        say(f"fetching Patroni and etcd (9 MB) into {folder}")
        fetch_patroni(folder)
    return programs.find_patroni("patroni")


_FETCHED = {
    "mysql": _mysql,
    "myrocks": _myrocks,
    "galera": _galera,
    "patroni": _patroni,
}
