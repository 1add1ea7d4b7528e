"""The methods by which a lab's server is copied, and its copy becomes a server's data.

Each method is a class; registry.py says which servers have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from dbcheck.base import processes
from dbcheck.base.points import PointKind
from dbcheck.lab import programs, server_account
from dbcheck.lab.network import LOOPBACK
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.base import USER, DatabaseServer
from dbcheck.lab.storage.base import CopiedDrive
from dbcheck.lab.storage.copied import TakingOfDrives

# The databases that dbcheck uses.
_OF_POSTGRESQL, _OF_MARIADB = "postgres", "dbcheck"
_TABLES = "base"  # PostgreSQL's folder of tables, in its data folder


class MethodName(StrEnum):
    """A method, as users name it."""

    BASE_BACKUP = "base-backup"
    MARIADB_BACKUP = "mariadb-backup"
    CLONE = "clone"
    DUMP = "dump"
    ARCHIVE = "archive"
    POINT_IN_TIME = "point-in-time"
    RECEIVER = "receiver"
    PGBACKREST = "pgbackrest"
    FILES = "files"
    DRIVES = "drives"
    DRIVES_APART = "drives-apart"


@dataclass(frozen=True, slots=True)
class Step:
    """A program that is run to its end.

    command: without any secret.
    variables: of its environment, which hold no secret either.
    input_file: what it reads at its standard input; None for nothing.
    is_own: it is dbcheck itself, and does not run as the server's account.
    """

    command: list[str]
    variables: Mapping[str, str]
    input_file: Path | None = None
    is_own: bool = False


class CopyMethod:
    """A method, for one server and the one on which its copies are restored.

    original: the server under load.  restored: the other one, of the same kind.
    secrets:  a folder of this process, for files with the password.
    account:  runs both servers, and the programs; None: this process's account.
    archive:  a folder of the account, for what is shipped until the server is lost.
    drives:   those of the original, the data's first; () without any.
    """

    needs: ClassVar[tuple[str, ...]] = ()  # programs, beside those of the server
    settings: ClassVar[Mapping[str, str]] = {}  # that the original must be started with
    rpo_s: ClassVar[float | None] = None  # see ports.site.Copying
    drives_min: ClassVar[int] = 0  # virtual drives that it copies at least, if any
    until: ClassVar[PointKind | None] = None  # see ports.site.Copying
    ships: ClassVar[bool] = False  # the log is shipped from before the load on

    def __init__(
        self,
        original: DatabaseServer,
        restored: DatabaseServer,
        secrets: Path,
        account: Account | None,
        archive: Path,
        drives: Sequence[CopiedDrive] = (),
    ) -> None:
        self._original, self._restored = original, restored
        self._archive, self._drives = archive, tuple(drives)
        self._secrets, self._account = secrets, account

    @property
    def _base(self) -> Path:
        """The backup that was taken before the load."""
        return self._archive / "base"

    @property
    def _log(self) -> Path:
        """The folder of what was shipped since."""
        return self._archive / "log"

    def receive(self) -> list[Step]:
        """Return the programs that receive the log; the last runs until the end."""
        return []

    def begin(self) -> list[Step]:
        """Return the programs that are run before any load, once the log is received.

        Nothing is there to be shipped where a copy is taken.
        """
        return []

    def resume(self) -> list[Step]:
        """Return the programs that await the receiver after the server was started."""
        return []

    def take(self, copy: Path) -> list[Step]:
        """Return the programs that, one after the other, make the copy *copy*."""
        return []

    def begin_taking(self, copy: Path) -> TakingOfDrives | None:
        """Begin to copy the drives into *copy*; None if programs take the copy.

        Raise LabError if that fails.
        """
        return None

    def release(self) -> None:
        """Let go of the copy that the server, which has ended, was started on."""

    def list_folders(self) -> list[tuple[str, str]]:
        """Return each drive's mount point, and that of its copy; [] without copies."""
        return []

    def unpack(self, copy: Path) -> list[Step]:
        """Return the programs that make *copy* of what was shipped; none if it is."""
        return []

    def ship(self) -> list[Step]:
        """Return the programs that ship the rest of the log of a server that runs."""
        return []

    def aim(self, point: str) -> None:
        """Have the restored server, which was prepared, recover to *point*."""

    def prepare(self, copy: Path) -> None:
        """Have the restored server, which does not run, start on the copy's data."""
        self._restored.data = copy
        self._restored.adopt(self._original.password)

    def load(self, copy: Path) -> list[Step]:
        """Return the programs that fill the restored server once it runs."""
        return []

    def _find(self, name: str) -> str:
        """Return the path of a program; raise LabError if it is missing."""
        found = find_program(type(self._original), name)
        if found is None:
            raise programs.missing_program_error(name)
        return str(found)

    def _write_secret(self, name: str, text: str, account: Account | None) -> Path:
        """Make a file that only *account* (and root) can read; return it."""
        server_account.make_folder(self._secrets, None, reader=self._account)
        path = self._secrets / name
        server_account.make_file(path, account, text)
        return path


class ByLibpq(CopyMethod):
    """Programs of PostgreSQL's client, with the password in a file."""

    def _step(
        self,
        name: str,
        server: DatabaseServer,
        *arguments: str,
        database: str = "",
        application: str = "",
    ) -> Step:
        secret = self._write_password_file()
        where = {"host": LOOPBACK, "port": str(server.port), "user": USER}
        if database:
            where["dbname"] = database
        if application:
            where["application_name"] = application
        conninfo = " ".join(f"{key}={value}" for key, value in where.items())
        command = [self._find(name), f"--dbname={conninfo}", *arguments]
        return Step(command, {"PGPASSFILE": str(secret)})

    def _write_password_file(self) -> Path:
        line = f"*:*:*:{USER}:{self._original.password}\n"
        return self._write_secret("pgpass", line, self._account)

    def _ask(self, *statements: str) -> Step:
        """Return what runs statements, each in a transaction, on the original."""
        commands = [f"--command={statement}" for statement in statements]
        options = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", *commands)
        return self._step("psql", self._original, *options, database=_OF_POSTGRESQL)

    def _back_up(self, copy: Path) -> Step:
        options = ("--wal-method=stream", "--checkpoint=fast", "--no-sync")
        return self._step(
            *("pg_basebackup", self._original, f"--pgdata={copy}", *options)
        )

    def _copy_files(self, paths: list[str], copy: Path) -> Step:
        return Step([self._find("cp"), "-r", *paths, str(copy)], {})


class Files(ByLibpq):
    """PostgreSQL's files, copied by cp while the server writes: no valid copy.

    The tables' files are copied first, and the WAL after a checkpoint, as where copying
    takes longer than the server waits between two checkpoints.  Recovery begins at that
    checkpoint, so what was committed between is missing (PostgreSQL 15 manual, 26.2).
    """

    needs = ("cp", "psql")

    def take(self, copy: Path) -> list[Step]:
        data = self._original.data
        others = sorted(str(one) for one in data.iterdir() if one.name != _TABLES)
        server_account.make_folder(copy, self._account)
        return [
            self._copy_files([str(data / _TABLES)], copy),
            self._ask("checkpoint"),
            self._copy_files(others, copy),
        ]


class BaseBackup(ByLibpq):
    """PostgreSQL's pg_basebackup, which streams the WAL meanwhile."""

    needs = ("pg_basebackup",)

    def take(self, copy: Path) -> list[Step]:
        return [self._back_up(copy)]


class PostgresqlDump(ByLibpq):
    """PostgreSQL's pg_dump, loaded by psql into a new server."""

    needs = ("pg_dump", "psql")

    def take(self, copy: Path) -> list[Step]:
        return [
            self._step(
                *("pg_dump", self._original, f"--file={copy}"),
                database=_OF_POSTGRESQL,
            )
        ]

    def prepare(self, copy: Path) -> None:
        _initialise(self._restored, copy, self._original.password)

    def load(self, copy: Path) -> list[Step]:
        options = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={copy}")
        return [
            self._step(*("psql", self._restored, *options), database=_OF_POSTGRESQL)
        ]


class _ByMariadbClient(CopyMethod):
    """Programs of MariaDB's client, with the password in a file."""

    def _command(self, name: str, server: DatabaseServer) -> list[str]:
        text = f'[client]\npassword="{self._original.password}"\n'
        secret = self._write_secret("client.cnf", text, self._account)
        return [
            self._find(name),
            f"--defaults-file={secret}",  # it must stand first
            f"--host={LOOPBACK}",
            f"--port={server.port}",
            f"--user={USER}",
        ]


class MariadbBackup(_ByMariadbClient):
    """MariaDB's mariadb-backup, whose copy is prepared at once."""

    needs: ClassVar[tuple[str, ...]] = ("mariadb-backup",)

    def take(self, copy: Path) -> list[Step]:
        target = f"--target-dir={copy}"
        temporary = {"TMPDIR": str(copy.parent)}
        command = self._command("mariadb-backup", self._original)
        data = f"--datadir={self._original.data}"
        prepare = [self._find("mariadb-backup"), "--no-defaults", "--prepare", target]
        return [
            Step([*command, "--backup", data, target], temporary),
            Step(prepare, temporary),
        ]


class MariadbDump(_ByMariadbClient):
    """MariaDB's mariadb-dump, of one moment, loaded into a new server."""

    needs = ("mariadb-dump", "mariadb")

    def take(self, copy: Path) -> list[Step]:
        command = self._command("mariadb-dump", self._original)
        options = ("--single-transaction", f"--result-file={copy}", _OF_MARIADB)
        return [Step([*command, *options], {})]

    def prepare(self, copy: Path) -> None:
        _initialise(self._restored, copy, self._original.password)

    def load(self, copy: Path) -> list[Step]:
        command = self._command("mariadb", self._restored)
        return [Step([*command, f"--database={_OF_MARIADB}"], {}, input_file=copy)]


class Clone(CopyMethod):
    """MySQL's plugin clone, by which the server copies itself into a folder."""

    def take(self, copy: Path) -> list[Step]:
        # dbcheck runs the statement, as this process's account, and alone reads this.
        secret = self._write_secret("password", self._original.password, None)
        command = processes.make_module_command(
            *("dbcheck.lab.restoring.cloning", str(self._original.port)),
            *(USER, str(secret), str(copy)),
        )
        return [Step(command, {}, is_own=True)]


def _initialise(server: DatabaseServer, copy: Path, password: str) -> None:
    """Make a new server's data beside *copy*, a file; none is there yet."""
    server.data = copy.with_name(f"{copy.name}.data")
    if server.data.is_dir():
        server_account.empty_folder(server.data)
    server.initialise(password)


def find_program(kind: type[DatabaseServer], name: str) -> Path | None:
    """Return a program of a method, None if it is not installed."""
    return programs.find(name) if name == "cp" else kind.find(name)
