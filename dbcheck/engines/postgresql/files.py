"""The files that libpq reads beside the URL: none may be a FIFO, or without end."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbcheck.base.access import who_may_change
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.url import unreadable_file

# PostgreSQL 17 manual, 34.15, 34.16, 34.17 and 34.19: each option, the variable that
# has the same meaning, and the file in the user's home that is read without either.
_FOLDER, _SERVICES = "PGSYSCONFDIR", "pg_service.conf"  # for all users (34.17)
_PASSWORDS = ("passfile", "PGPASSFILE", ".pgpass")
_OWN_SERVICES = ("servicefile", "PGSERVICEFILE", f".{_SERVICES}")
_FILES = (
    ("sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"),
    ("sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"),
    ("sslkey", "PGSSLKEY", ".postgresql/postgresql.key"),
    ("sslcrl", "PGSSLCRL", ".postgresql/root.crl"),
    _PASSWORDS,
    _OWN_SERVICES,
)


def require_readable(target: str, arguments: Mapping[str, Any]) -> None:
    """Raise EngineError for a file that libpq would wait for, or read without end.

    Also for a service file that another user may change: it says whom to connect to,
    and may let any server ask for the password.  target: how error messages name the
    server.  arguments: libpq's.
    """
    named = dict(_place(arguments, *file) for file in _FILES)
    if system := _system_services():
        named[_FOLDER] = system
    if why := unreadable_file(named):
        raise EngineError(
            f"cannot connect to {target}: {why}",
            id=ErrorId.FILE_NOT_READABLE,
            hint="Name another file, or remove this one.",
        )
    for path in _service_files(arguments):
        if os.path.exists(path) and (change := who_may_change(Path(path))):
            raise EngineError(
                f"cannot connect to {target}: {change.how}: it says how to log in to"
                " the server",
                id=ErrorId.SECRET_FILE_NOT_PRIVATE,
                hint=f"Run: {change.end}",
            )


def _service_files(arguments: Mapping[str, Any]) -> list[str]:
    """Return the files in which libpq looks a service up (manual, 34.17)."""
    if not (arguments.get("service") or os.environ.get("PGSERVICE")):
        return []
    own, system = _place(arguments, *_OWN_SERVICES)[1], _system_services()
    return [own, system] if system else [own]


def _system_services() -> str:
    """Return the file of all users' services that the environment names, or ""."""
    folder = os.environ.get(_FOLDER)
    return os.path.join(folder, _SERVICES) if folder else ""


def password_advice(arguments: Mapping[str, Any]) -> str:
    """Return what to do where the server asks for a password, and libpq has none.

    arguments: libpq's.  It says on standard error alone why it leaves a list of
    passwords aside (PostgreSQL 15, passwordFromFile in fe-connect.c).
    """
    path = _place(arguments, *_PASSWORDS)[1]
    return (
        f"{_left_aside(path)}Give it with --password-command, in DBCHECK_PASSWORD or"
        f" PGPASSWORD, or as HOST:PORT:DATABASE:USER:PASSWORD in {path}."
    )


def _left_aside(path: str) -> str:
    """Return why libpq does not use the list of passwords at *path*, a sentence."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}. "
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        command = f"chmod 600 {shlex.quote(path)}"
        return f"libpq ignores {path}, since it is not yours alone: run {command}. "
    return f"No line of {path} is for this host, port, database and user. "


def _place(
    arguments: Mapping[str, Any], option: str, variable: str, usual: str
) -> tuple[str, str]:
    """Return what names a file, and the file."""
    if option in arguments:
        return option, str(arguments[option])
    if found := os.environ.get(variable):
        return variable, found
    return f"~/{usual}", os.path.expanduser(f"~/{usual}")
