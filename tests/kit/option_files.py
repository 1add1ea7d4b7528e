"""The readers of option files that MariaDB and MySQL have."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dbcheck.engines.mysql.optionfile import Option
from dbcheck.lab import programs

GROUPS = ("client", "client-server", "client-mariadb")
_MYSQLD = "mysqld"  # the group that its server reads


def as_arguments(options: list[Option]) -> str:
    """Return options as both print them: an argument each, in a line each."""
    return "".join(
        f"--{one.name}\n" if one.value is None else f"--{one.name}={one.value}\n"
        for one in options
    )


def printed_by_mariadb(file: Path) -> str | None:
    """Return the options in GROUPS that my_print_defaults prints; None if it fails.

    Raise LookupError where it is not installed.
    """
    program = programs.find("my_print_defaults")
    if program is None:
        raise LookupError("my_print_defaults is not installed")
    return _printed([str(program), f"--defaults-file={file}", *GROUPS], file.parent)


def printed_by_mysql(file: Path) -> str | None:
    """Return what MySQL's server finds, blanks between; None if it fails.

    It reads the group [mysqld], and it shows no passwords.  Raise LookupError where
    it is not installed.
    """
    program = programs.find_mysqld()
    if program is None:
        raise LookupError("MySQL is not installed")
    command = [str(program), f"--defaults-file={file}", "--print-defaults"]
    printed = _printed(command, file.parent)
    return None if printed is None else printed.partition("\n")[2]


def _printed(command: list[str], folder: Path) -> str | None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    return None if done.returncode else done.stdout.decode("utf-8", "surrogateescape")
