"""The methods that each kind of server has, and what they need on this machine."""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab import programs
from dbcheck.lab.restoring.archives import Archive, PointInTime, Receiver
from dbcheck.lab.restoring.binlogs import MariadbPointInTime
from dbcheck.lab.restoring.drives import Drives, DrivesApart
from dbcheck.lab.restoring.methods import (
    BaseBackup,
    Clone,
    CopyMethod,
    Files,
    MariadbBackup,
    MariadbDump,
    MethodName,
    PostgresqlDump,
    find_program,
)
from dbcheck.lab.restoring.pgbackrest import Pgbackrest
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import ENGINES

METHODS: Mapping[MethodName, Mapping[str, type[CopyMethod]]] = {
    MethodName.BASE_BACKUP: {"postgresql": BaseBackup},
    MethodName.MARIADB_BACKUP: {"mariadb": MariadbBackup},
    MethodName.CLONE: {"mysql": Clone},
    MethodName.DUMP: {
        "postgresql": PostgresqlDump,
        "mariadb": MariadbDump,
        "myrocks": MariadbDump,
    },
    MethodName.ARCHIVE: {"postgresql": Archive},
    MethodName.RECEIVER: {"postgresql": Receiver},
    MethodName.PGBACKREST: {"postgresql": Pgbackrest},
    MethodName.POINT_IN_TIME: {
        "postgresql": PointInTime,
        "mariadb": MariadbPointInTime,
    },
    MethodName.FILES: {"postgresql": Files},
    MethodName.DRIVES: dict.fromkeys(ENGINES, Drives),
    MethodName.DRIVES_APART: dict.fromkeys(ENGINES, DrivesApart),
}


def list_methods(engine: str) -> list[str]:
    """Return the names of the methods that a server of *engine* has."""
    return [name.value for name, kinds in METHODS.items() if engine in kinds]


def choose_method(name: str, engine: str) -> type[CopyMethod]:
    """Return the method *name* of a server of *engine*.

    Raise UsageError, naming those that it has, if this is none of them.
    """
    known = list_methods(engine)
    if name not in known:
        raise UsageError(
            f"{engine} cannot be copied by {name} (--restore)",
            id=ErrorId.RESTORE_METHOD_NOT_FOR_ENGINE,
            hint=f"This server has: {', '.join(known)}.",
        )
    return METHODS[MethodName(name)][engine]


def require_programs(method: type[CopyMethod], kind: type[DatabaseServer]) -> None:
    """Raise LabError if a program that *method* needs is not installed."""
    lacking = [
        programs.lacking(name)
        for name in method.needs
        if find_program(kind, name) is None
    ]
    if lacking:
        raise LabError(
            f"no copy can be taken on this machine: {'; '.join(lacking)}",
            id=ErrorId.PROGRAM_MISSING,
            hint="Install that, or use another method.",
        )
