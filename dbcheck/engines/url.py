"""The URL of a target: read with SQLAlchemy, refused if it holds a password."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import sqlalchemy.engine
import sqlalchemy.exc

from dbcheck.base import plain
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded
from dbcheck.config import secret

PORTS = range(1, 65_536)
DATABASE = "dbcheck"  # on MySQL and MariaDB, if the URL names none
SEVERAL = (
    "Write several hosts like ?host=db1:5432&host=db2:5432; with an address of IPv6,"
    " give the ports by themselves: ?host=::1,db2&port=5432,5432."
)
HINT = (
    "Pass it by PGPASSWORD or ~/.pgpass, by MYSQL_PWD or ~/.my.cnf, by"
    " DBCHECK_PASSWORD, or with --password-command."
)


def read_url(url: str) -> sqlalchemy.engine.URL:
    """Return the parsed *url*; raise UsageError if it is invalid or holds a password.

    The message never repeats the URL, for it may hold what must not be shown.
    """
    try:
        url.encode()  # fails where a byte is no UTF-8
        parsed = sqlalchemy.engine.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise UsageError(
            "the target is not a database URL",
            id=ErrorId.TARGET_URL_INVALID,
            hint=_advise_on_url(url),
        ) from None
    if any("\0" in part for part in (*parsed.query, *_list_free_texts(parsed))):
        raise UsageError(
            "the target's URL holds a zero byte",
            id=ErrorId.TARGET_URL_INVALID,
            hint="Remove the %00: libpq would not see what comes after it.",
        )
    if (
        parsed.password is not None
        or any(map(secret.SECRET_OPTION.search, parsed.query))
        or any(map(secret.MISPLACED.search, _list_free_texts(parsed)))
    ):
        raise UsageError(
            "the target's URL contains a password",
            id=ErrorId.URL_HOLDS_PASSWORD,
            hint=HINT,
        )
    if parsed.port is not None and parsed.port not in PORTS:
        raise UsageError(  # SQLAlchemy takes 0 for none, and so for the usual port
            f"the target's URL names port {parsed.port}",
            id=ErrorId.TARGET_URL_INVALID,
            hint=f"Write a number from 1 to {PORTS[-1]}, or none for the usual port.",
        )
    return parsed


def name_driver(url: sqlalchemy.engine.URL) -> sqlalchemy.engine.URL:
    """Return *url* as runs name it: with dbcheck's driver; of MySQL, with a database.

    Nothing but the URL decides, so that a name is the same on each machine.
    """
    if url.get_backend_name() in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg2")
    named = url.set(drivername="mysql+mysqlconnector")
    return named if named.database else named.set(database=DATABASE)


def _list_free_texts(url: sqlalchemy.engine.URL) -> Iterator[str]:
    """Yield each part of *url* that is free text, but for the names of options."""
    yield from (url.username or "", url.host or "", url.database or "")
    for value in url.query.values():
        yield from (value,) if isinstance(value, str) else value


def _advise_on_url(url: str) -> str:
    """Return advice on a URL, without repeating any of it."""
    scheme, _, rest = url.partition("://")
    if "," not in re.split("[/?]", rest)[0].rpartition("@")[2]:
        return "Write it like postgresql+psycopg2://user@host:5432/database."
    if scheme.startswith(("mysql", "mariadb")):
        return "Name one host, like mysql://user@host:3306/database."
    return SEVERAL


def require_single(url: sqlalchemy.engine.URL, but: Collection[str]) -> None:
    """Raise UsageError if an option of *url* is given twice, *but* those that may be.

    A driver would take both values for one, or fail without an error of its own.
    """
    for name, value in url.query.items():
        if isinstance(value, tuple) and name not in but:
            raise UsageError(
                f"invalid option in the target's URL: {name} is given twice",
                id=ErrorId.TARGET_URL_OPTION_INVALID,
                hint="Keep one of them.",
            )


def require_hosts(hosts: Iterable[str], hint: str) -> None:
    """Raise UsageError for what a driver would take for another host, or for none.

    It takes a host's port, and a login, for a part of its name; MySQL's removes blanks.
    """
    for host in hosts:
        if host.startswith(("/", "@")):
            continue
        is_plain = host.isprintable() and " " not in host and "@" not in host
        if not is_plain or (":" in host and not _is_ipv6(host)):
            raise invalid_host_error(hint)


def invalid_host_error(hint: str) -> UsageError:
    """Return the error about a host, which is not repeated: it may hold a login."""
    return UsageError(
        "a host in the target's URL is neither a name nor an address",
        id=ErrorId.TARGET_URL_OPTION_INVALID,
        hint=hint,
    )


def _is_ipv6(host: str) -> bool:
    try:
        return bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False


def expand_named_files(
    arguments: Mapping[str, Any], options: AbstractSet[str]
) -> dict[str, Any]:
    """Return a driver's *arguments* with the home directory in place of a leading ~.

    options: the names of the arguments that are files.  Raise UsageError.
    """
    found = dict(arguments)
    for option in options & found.keys():
        try:
            found[option] = expanded(str(found[option]))
        except LookupError as error:
            raise UsageError(
                f"invalid option in the target's URL: {option}: {error.args[0]}",
                id=ErrorId.TARGET_URL_OPTION_INVALID,
                hint="Write the whole path.",
            ) from None
    return found


def find_unreadable_file(named: Mapping[str, str]) -> str:
    """Return the file that a driver must not read, and why; "" if none.

    named: by what names each, e.g. "sslrootcert" or "PGPASSFILE".  What is missing, or
    this user may not read, is left to the driver.
    """
    for what, name in named.items():
        try:
            plain.require_regular(Path(name))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            return f"{what}: {name} cannot be read: {why}"
    return ""
