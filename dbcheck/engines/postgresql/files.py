"""The files that libpq reads beside the URL: none may be a FIFO, or without end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dbcheck.engines.named_files import unreadable_file
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError
from dbcheck.others import who_may_change

# PostgreSQL 17 manual, 34.15, 34.16, 34.17 and 34.19: each option, the variable that
# has the same meaning, and the file in the user's home that is read without either.
_FILES = (
    ("sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"),
    ("sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"),
    ("sslkey", "PGSSLKEY", ".postgresql/postgresql.key"),
    ("sslcrl", "PGSSLCRL", ".postgresql/root.crl"),
    ("passfile", "PGPASSFILE", ".pgpass"),
    ("servicefile", "PGSERVICEFILE", ".pg_service.conf"),
)
_OF_SERVICES = ("servicefile", "PGSERVICEFILE", "~/.pg_service.conf")


def require_readable(target: str, arguments: Mapping[str, Any]) -> None:
    """Raise EngineError for a file that libpq would wait for, or read without end.

    Also for a service file that another user may change: it says whom to connect to,
    and may let any server ask for the password.  target: how error messages name the
    server.  arguments: libpq's.
    """
    if why := unreadable_file(dict(_named(arguments))):
        raise EngineError(
            f"cannot connect to {target}: {why}",
            id=ErrorId.FILE_NOT_READABLE,
            hint="Name another file, or remove this one.",
        )
    for file in _service_files(arguments):
        if file.exists() and (change := who_may_change(file)):
            raise EngineError(
                f"cannot connect to {target}: {change.how}: it says how to log in to"
                " the server",
                id=ErrorId.SECRET_FILE_NOT_PRIVATE,
                hint=f"Run: {change.end}",
            )


def _service_files(arguments: Mapping[str, Any]) -> list[Path]:
    """Return the files in which libpq may look a service up (manual, 34.17)."""
    if not (arguments.get("service") or os.environ.get("PGSERVICE")):
        return []
    files = [Path(file) for what, file in _named(arguments) if what in _OF_SERVICES]
    system = os.environ.get("PGSYSCONFDIR")
    return [*files, Path(system, "pg_service.conf")] if system else files


def _named(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what names each file, and the file."""
    for option, variable, usual in _FILES:
        if option in arguments:
            yield option, str(arguments[option])
        elif found := os.environ.get(variable):
            yield variable, found
        else:
            yield f"~/{usual}", os.path.expanduser(f"~/{usual}")
