"""Child processes: how their Python starts, and which variables they inherit.

The working directory may belong to somebody else, so no child imports or runs what lies
there; a child that has no use for a secret does not inherit it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Sequence

PYTHON = sys.executable
LIBPQ_PASSWORD = "PGPASSWORD"
# Where dbcheck, libpq and MySQL's clients read the database's password from.
_DATABASE = frozenset({"DBCHECK_PASSWORD", LIBPQ_PASSWORD, "MYSQL_PWD"})
_IF_PARENT_IS_ALIVE = '[ "$PPID" = "$0" ] && exec "$@"'
_named: set[str] = set()
_of_switches: set[str] = set()


def module(name: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of dbcheck's own.

    -P, as `python -m` otherwise imports from the working directory first.
    Not -I: dbcheck may have been found by PYTHONPATH, or in the user's own packages.
    """
    return [PYTHON, "-P", "-m", name, *arguments]


def standalone(code: str, python: str = PYTHON) -> list[str]:
    """Return the command line that runs *code*, which needs the standard library alone.

    -I and -S: nothing of the environment, the working directory or site-packages.
    """
    return [python, "-I", "-S", "-c", code]


def withhold(variable: str, *, of_switch: bool = False) -> None:
    """Note that a variable holds a secret: of the database, or of a power switch."""
    (_of_switches if of_switch else _named).add(variable)


def switch_variables() -> frozenset[str]:
    """Return the variables that hold secrets of power switches, and nothing else's."""
    return frozenset(_of_switches - _named - _DATABASE)


def secrets() -> set[str]:
    """Return the values of the variables that hold secrets."""
    names = _DATABASE | _named | _of_switches
    return {value for name in names if (value := os.environ.get(name))}


def environment(keep: Container[str] = ()) -> dict[str, str]:
    """Return our environment without the variables that hold secrets.

    keep: those of them that the child needs.
    """
    secret = _DATABASE | _named | _of_switches
    kept = {k: v for k, v in os.environ.items() if k not in secret or k in keep}
    return {**kept, "PATH": search_path()}


def die_with_parent(command: Sequence[str]) -> list[str]:
    """Return *command* such that it is killed when the thread that starts it ends.

    The kernel clears the death signal (prctl(2), PR_SET_PDEATHSIG) when the account
    changes, so setpriv sets it afterwards; the shell then checks whether the parent
    ended in between.  The command has the id of the process that is started.
    """
    setpriv = ("setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", _IF_PARENT_IS_ALIVE)
    return [*setpriv, str(os.getpid()), *command]


def search_path() -> str:
    """Return PATH without what depends on the working directory ("", ".", "bin")."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    found = [folder for folder in folders if os.path.isabs(folder)]
    return os.pathsep.join(found) or os.defpath
