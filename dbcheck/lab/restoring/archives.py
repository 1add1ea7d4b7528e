"""The methods that restore what PostgreSQL has shipped: all, or up to a point.

A base backup is taken before any load, and the WAL is shipped from then on.  After the
power was cut, both are restored; nothing is read from the lost server's drive.  For a
point no power is cut, and the server ships the rest of the WAL first.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from dbcheck.base.points import PointKind
from dbcheck.lab.restoring.methods import ByLibpq, Step

_RECEIVER = "receiver"  # the slot, and the name as a standby
# One look for each statement: a view over the senders shows one state in a transaction.
_AWAIT_STREAM = (
    "do $$ begin while not exists (select from pg_stat_get_wal_senders()"
    " where state = 'streaming') loop perform pg_sleep(0.05); end loop; end $$"
)
_RELOAD = "select pg_reload_conf()"
# Each segment is shipped once it is complete, and one is completed each second.
ARCHIVING: Mapping[str, str] = {"archive_mode": "on", "archive_timeout": "1"}
# Completes the segment that has the newest WAL, and awaits that it was shipped.  What
# else is written meanwhile is not needed: the point comes before it.  The archiver
# ships one segment after the other, by their names (PostgreSQL 15, pgarch.c).
_SHIP_REST = (
    "do $$ declare last text := pg_walfile_name(pg_switch_wal()); begin"
    " while not exists (select from pg_stat_get_archiver()"
    ' where last_archived_wal collate "C" >= last) loop'
    " perform pg_sleep(0.05); perform pg_stat_clear_snapshot(); end loop; end $$"
)
# A restored server that neither ships nor waits, and takes no query before the end of
# the WAL.
_SETTINGS = {
    "archive_mode": "off",
    "archive_timeout": "0",
    "hot_standby": "off",
    "synchronous_standby_names": "",
}


class Shipped(ByLibpq):
    """A base backup, and the WAL that was shipped since."""

    needs: ClassVar[tuple[str, ...]] = ("pg_basebackup", "psql", "cp")
    ships = True
    # restore_command, where {log} is the folder of the WAL.
    fetch: ClassVar[str]

    def unpack(self, copy: Path) -> list[Step]:
        signal = str(copy / "recovery.signal")
        return [
            self._copy_files([str(self._base)], copy),
            Step([self._find("cp"), "/dev/null", signal], {}),
        ]

    def prepare(self, copy: Path) -> None:
        super().prepare(copy)
        self._restored.settings = {
            **self._original.settings,
            **_SETTINGS,
            "restore_command": self._fetch_command(copy),
        }

    def _fetch_command(self, copy: Path) -> str:
        return self.fetch.format(log=quote(self._log))

    def _archive_by(self, command: str) -> Step:
        """Return what sets archive_command on the original."""
        literal = command.replace("'", "''")
        return self._ask(f"alter system set archive_command = '{literal}'", _RELOAD)


class Archive(Shipped):
    """archive_command, which ships each segment of the WAL once it is complete.

    A segment is complete under its name alone: it is copied under another one, and
    synced (PostgreSQL 15 manual, 26.3.1).
    """

    settings = ARCHIVING
    rpo_s: ClassVar[float | None] = 5.0
    fetch = 'test -e {log}/%f || exit 1; cp {log}/%f "%p" || exit 255'

    def begin(self) -> list[Step]:
        log = quote(self._log)
        ship = (
            f'test -f {log}/%f && cmp -s "%p" {log}/%f && exit 0;'
            f' cp "%p" {log}/%f.new && sync {log}/%f.new && mv {log}/%f.new {log}/%f'
        )
        return [self._back_up(self._base), self._archive_by(ship)]


class PointInTime(Archive):
    """The same, restored to a restore point that is made under load.

    The server is not cut, so the rest of the WAL is shipped before the restore.
    """

    settings: ClassVar[Mapping[str, str]] = {"archive_mode": "on"}
    rpo_s: ClassVar[float | None] = None
    until = PointKind.RESTORE_POINT

    def ship(self) -> list[Step]:
        return [self._ask(_SHIP_REST)]

    def aim(self, point: str) -> None:
        self._restored.settings = {
            **self._restored.settings,
            "recovery_target_name": point,
            "recovery_target_action": "promote",
        }


class Receiver(Shipped):
    """pg_receivewal --synchronous, for which each commit waits."""

    needs: ClassVar[tuple[str, ...]] = (*Shipped.needs, "pg_receivewal")
    rpo_s: ClassVar[float | None] = 0.0
    # The last segment is not complete when the server is lost.
    fetch = (
        'test -e {log}/%f || exec cp {log}/%f.partial "%p";'
        ' cp {log}/%f "%p" || exit 255'
    )

    def receive(self) -> list[Step]:
        slot = f"--slot={_RECEIVER}"
        return [
            self._step(
                *("pg_receivewal", self._original, slot),
                *("--create-slot", "--if-not-exists"),
            ),
            self._step(
                *("pg_receivewal", self._original, slot, "--synchronous"),
                *(f"--directory={self._log}", "--no-password"),
                application=_RECEIVER,
            ),
        ]

    def begin(self) -> list[Step]:
        waits = f"alter system set synchronous_standby_names = '{_RECEIVER}'"
        return [
            *self.resume(),
            self._back_up(self._base),
            self._ask(waits, _RELOAD),
        ]

    def resume(self) -> list[Step]:
        return [self._ask(_AWAIT_STREAM)]


def quote(path: Path | str) -> str:
    """Return a path as archive_command and restore_command take it: % is doubled."""
    return shlex.quote(str(path)).replace("%", "%%")
