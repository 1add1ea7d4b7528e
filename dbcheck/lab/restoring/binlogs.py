"""The method that restores MariaDB's binary logs to a GTID.

A backup is taken before any load.  The server is not cut: once the load has ended, its
binary logs are fetched from it, and replayed on the backup up to the GTID.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from dbcheck.base.points import PointKind
from dbcheck.lab import server_account
from dbcheck.lab.restoring.methods import MariadbBackup, Step

_BINLOG = "binlog"
_FIRST = f"{_BINLOG}.000001"
# Where the backup ends: the file of the binary log, the place in it, and a GTID.
_PLACE_FILE, _PLACE_BYTES_MAX = "xtrabackup_binlog_info", 4096


class MariadbPointInTime(MariadbBackup):
    """mariadb-backup, and mariadb-binlog --stop-position, which includes the GTID."""

    needs = ("mariadb-backup", "mariadb-binlog", "mariadb", "cp")
    settings: ClassVar[Mapping[str, str]] = {
        "log_bin": _BINLOG,
        "server_id": "1",
        "sync_binlog": "1",
    }
    until = PointKind.GTID
    ships = True
    _point = ""

    def begin(self) -> list[Step]:
        return super().take(self._base)

    def take(self, copy: Path) -> list[Step]:
        return []

    def ship(self) -> list[Step]:
        command = self._command("mariadb-binlog", self._original)
        options = ("--read-from-remote-server", "--raw", "--to-last-log")
        return [Step([*command, *options, f"--result-file={self._log}/", _FIRST], {})]

    def unpack(self, copy: Path) -> list[Step]:
        return [Step([self._find("cp"), "-r", str(self._base), str(copy)], {})]

    def aim(self, point: str) -> None:
        self._point = point

    def load(self, copy: Path) -> list[Step]:
        first, place = self._read_place()
        files = sorted(self._log.glob(f"{_BINLOG}.[0-9]*"))
        later = [str(file) for file in files if file.name >= first]
        statements = copy.with_name(f"{copy.name}.sql")
        range_ = (f"--start-position={place}", f"--stop-position={self._point}")
        replay = [self._find("mariadb-binlog"), "--no-defaults", *range_]
        return [
            Step([*replay, f"--result-file={statements}", *later], {}),
            Step(self._command("mariadb", self._restored), {}, input_file=statements),
        ]

    def _read_place(self) -> tuple[str, str]:
        """Return the file and the place of the binary log at which the backup ends."""
        file = self._base / _PLACE_FILE
        text = server_account.read_as_text(file, self._account, _PLACE_BYTES_MAX)
        first, place, *_ = text.split()
        return first, place
