"""A machine that loses its power: storage and the server on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable
from dbcheck.lab.certificates import Identity
from dbcheck.lab.drive.recording import Recordings
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.network import Place, Source
from dbcheck.lab.server_account import Account, empty_folder
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.servers.container import Container, Networked
from dbcheck.lab.servers.mariadb import GaleraServer, MariadbServer, MyrocksServer
from dbcheck.lab.servers.mysql import MysqlServer
from dbcheck.lab.servers.patroni import Patroni4Server, PatroniMember, PatroniServer
from dbcheck.lab.servers.postgresql import PostgresqlServer
from dbcheck.lab.spec import DATA_DRIVE, LAYER, LabSpec
from dbcheck.lab.storage.base import CopiedDrive, FolderStorage, Storage
from dbcheck.lab.storage.blocks import FileBlocks
from dbcheck.lab.storage.drive import DriveStorage
from dbcheck.lab.storage.two_drives import TwoDrives
from dbcheck.model.cut import PowerState

log = logging.getLogger(__name__)

SERVERS: dict[str, type[DatabaseServer]] = {
    "postgresql": PostgresqlServer,
    "mariadb": MariadbServer,
    "myrocks": MyrocksServer,
    "mysql": MysqlServer,
}


def make_server(spec: LabSpec) -> type[DatabaseServer]:
    """Return the class of a lab's server."""
    if spec.patroni:
        return Patroni4Server if spec.patroni_4 else PatroniServer
    return GaleraServer if spec.galera else SERVERS[spec.engine]


_RECOVERY_S = 180.0
_SHUTDOWN_S = 120.0
_RESTORE_HINT = (
    "Restore the power; if the server does not come back, end the lab and start a new"
    " one."
)

# Values under which a commit need not wait for a flush of the drive.
_VALUES_WITHOUT_FLUSH = {
    "fsync": {"off", "false", "no", "0"},
    "synchronous_commit": {"off", "false", "no", "0"},
    "innodb_flush_log_at_trx_commit": {"0", "2"},
    "rocksdb_flush_log_at_trx_commit": {"0", "2"},
    "rocksdb_write_disable_wal": {"on", "1"},
    "innodb_flush_method": {"nosync"},
}


class Machine:
    """A server on its storage, behind one switch.

    base:   a folder that the server's account can reach; base/files exists, and
            is on a disk.
    recordings: where the drives record all requests, from the end of build() to the
            first cut; or the recordings whose crash states show() shows.
    password: of the server in recordings that are replayed.
    source: the server that this machine's server follows, or the Patroni cluster that
            it is a member of; None if it follows no server.
    account: the account that the server runs as; None: this process's account.
    identity: the certificates by which a cluster's other nodes know the server.
    place:  the server's in the network of its cluster, None if that has none.
    power:  ON or OFF; ON also if the server did not come back, see failure().

    failure() reports damage that a cut did to the server; trouble of the machine itself
    is an error, or broken().
    """

    def __init__(
        self,
        spec: LabSpec,
        base: Path,
        recordings: Recordings | None = None,
        password: str = "",
        source: Source | PatroniMember | None = None,
        account: Account | None = None,
        identity: Identity | None = None,
        place: Place | None = None,
    ) -> None:
        self._spec, self._source, self._identity = spec, source, identity
        self._recordings, self._password = recordings, password
        self.power = PowerState.OFF
        self._failure: str | None = None
        self._drive_only = spec.power_scope == "drive"
        self._storage: Storage
        if spec.log_drive:
            self._storage = TwoDrives(spec, base, recordings)
        elif spec.cut == "drive":
            self._storage = DriveStorage(spec, base, recordings=recordings)
        else:
            self._storage = FolderStorage(base / DATA_DRIVE)
        kind = make_server(spec)
        self.server = kind(
            self._storage.folder / "data",
            base / "run",
            kind.port_in(spec.settings),
            settings=spec.settings,
            log_folder=self._storage.log_folder,
            account=account,
        )
        if place is not None:
            self.server.launcher = Networked(place.namespace)
            self.server.address = place.address
        if spec.contained:
            log, data = self.server.log_data, self.server.data
            self.server.launcher = Container(
                data, {log: "log"} if log else {}, layer=spec.container == LAYER
            )

    def build(self) -> None:
        """Make storage and server from nothing; return once the server takes queries.

        Where recordings are replayed, the power stays off until show().
        """
        self._storage.build()
        if self._identity:
            self.server.set_identity(self._identity)
        if self._recordings and self._recordings.replayed:
            self.server.adopt(self._password)
            return
        with self._storage.without_latency():
            self._begin_data()
            self.server.start()
            self._storage.flush_all()
            if self._recordings:
                self._storage.record()
        self._storage.start_counting()
        self.power = PowerState.ON

    def _begin_data(self) -> None:
        match self._source, self.server:
            case PatroniMember() as member, PatroniServer() as server:
                server.join(member)
            case Source() as source, server:
                server.follow(source)
            case _, server:
                server.initialise()

    def save_recordings(self) -> None:
        """Store what the drives recorded; raise LabError before the first cut."""
        self._storage.save_recordings()

    def show(self, states: Sequence[Shown], *, start: bool) -> None:
        """Have the drives hold a crash state of their recordings, and recover it.

        Writes since the last show() are undone first.  states: one for each drive, the
        data drive's first.  start: False mounts the filesystems and starts no server.
        failure() reports what does not come back.  Raise LabError as restore() does.
        """
        self.power = PowerState.OFF
        self._failure = None
        self._storage.show(self.server, states)
        if start:
            self.restore()
        else:
            self._mount_only()

    def _mount_only(self) -> None:
        try:
            self._storage.power_on()
        except Unrecoverable as error:
            self._note_failure(error)
        self.power = PowerState.ON

    def blocks(self) -> list[FileBlocks]:
        """Return the blocks of each file on the drives, see list_file_blocks()."""
        return self._storage.blocks()

    def cut(self) -> tuple[int, dict[str, object]]:
        """Cut the power of the whole machine, or of the drives alone, as the spec says.

        Return when the power was gone (CLOCK_MONOTONIC, in microseconds) and the report
        of the storage, with flushes_expected.  Raise LabError if the power is off, or
        if the cut stops halfway: the power is off then, and restore() ends the cut.
        """
        if self.power is PowerState.OFF:
            raise LabError(
                "the power is off already",
                id=ErrorId.POWER_OFF_ALREADY,
                hint="Restore it first.",
            )
        expected = self.flushes_expected()
        self.power = PowerState.OFF
        self._failure = None
        if self._drive_only:
            cut_us, report = self._storage.cut_drives_alone(flushes_expected=expected)
        else:
            cut_us, report = self._storage.cut(self.server, flushes_expected=expected)
            self._storage.end_cut(self.server)
        return cut_us, {**report, "flushes_expected": expected}

    def restore(self, image: Path | None = None) -> None:
        """Apply power and recover; failure() reports what does not come back.

        A server that is still in recovery after _RECOVERY_S is left running and is not
        a failure.  Where the drives alone lost their power, they appear again without
        their filesystems; start() starts the server once these are mounted.
        image: a new file that is to hold the drive as the cut left it.
        Raise LabError, with the power still off, if a cut that stopped halfway cannot
        be ended, or if this machine lacks something that the drive or the server needs:
        restore() may be called again.
        """
        if self.power is PowerState.ON:
            return
        self._storage.end_cut(self.server)
        try:
            with self._storage.without_latency():
                self._storage.power_on(image, mount=not self._drive_only)
                if not self._drive_only:
                    self._start_server()
            self._storage.start_counting()
        except Unrecoverable as error:
            self._note_failure(error)
        self.power = PowerState.ON

    def start(self) -> None:
        """Start the server after a power cut of the drives alone.

        failure() reports a server that does not come back.  Raise LabError if the power
        is off.
        """
        if self.power is PowerState.OFF or not self._drive_only:
            raise LabError(
                "no drive came back that the server could be started on",
                id=ErrorId.LAB_WITHOUT_DRIVE,
                hint="Restore its power first; only a lab with --power-scope drive"
                " has its server started apart.",
            )
        try:
            with self._storage.without_latency():
                self._start_server()
            self._storage.start_counting()
        except Unrecoverable as error:
            self._note_failure(error)

    @property
    def parts(self) -> tuple[CopiedDrive, ...]:
        """The drives, the data's first; () without any."""
        return self._storage.parts

    def drives(self) -> tuple[str, ...]:
        """Return the serials of the drives that are present."""
        return self._storage.drives()

    def restart(self) -> None:
        """Shut the server down in an orderly way and start it again.

        failure() reports a server that does not come back.  Raise LabError if the power
        is off, or if the server had to be killed.
        """
        if self.power is PowerState.OFF or self._failure:
            raise LabError(
                "no server runs that could be restarted",
                id=ErrorId.LAB_SERVER_NOT_RUNNING,
                hint=_RESTORE_HINT,
            )
        self.server.stop(_SHUTDOWN_S)
        try:
            self._start_server()
        except Unrecoverable as error:
            self._note_failure(error)

    def rejoin(self, source: Source) -> None:
        """Shut the server down, have it follow *source*, and start it again.

        Raise LabError if the power is off, or if the server cannot follow *source*.
        """
        if self.power is PowerState.OFF or self._failure:
            raise LabError(
                "no server runs that could follow another one",
                id=ErrorId.LAB_SERVER_NOT_RUNNING,
                hint=_RESTORE_HINT,
            )
        self.server.stop(_SHUTDOWN_S)
        self._start_anew(partial(self.server.rejoin, source))

    def copy(self, source: Source) -> None:
        """Give the server new data, by which it follows *source*, and start it.

        What it had is deleted, and a failure is forgotten.  Raise LabError if the power
        is off, if no filesystem is there to hold the data, or if the server cannot
        follow *source*.
        """
        if self.power is PowerState.OFF or not self.server.data.is_dir():
            raise LabError(
                "no filesystem is there that could hold a copy of the data",
                id=ErrorId.LAB_SERVER_NOT_RUNNING,
                hint=_RESTORE_HINT,
            )
        self.server.kill()  # the data that a shutdown would save is deleted
        for folder in filter(None, (self.server.data, self.server.log_data)):
            empty_folder(folder)
        self._failure = None
        self._start_anew(partial(self.server.follow, source))

    def _start_anew(self, prepare: Callable[[], None]) -> None:
        """Start the server on data that *prepare* made without flushing the drive."""
        with self._storage.without_latency():
            prepare()
            self._start_server()
            self._storage.flush_all()
        self._storage.start_counting()

    def _start_server(self) -> None:
        if not self.server.begin(_RECOVERY_S):
            log.warning("the server is still in recovery after %g s", _RECOVERY_S)

    def _note_failure(self, error: Unrecoverable) -> None:
        log.warning("did not come back: %s", error)
        self._failure = str(error)

    def failure(self) -> str | None:
        """Return why the server does not run although the power is on, or None."""
        if self.power is PowerState.OFF or self.broken():
            return None
        return self._failure or self.server.failure()

    def broken(self) -> str | None:
        """Return the failure of storage or server without any cut, or None.

        The server under test is not at fault: its drive died, or was too slow for the
        lab; or this machine ended the server, for example for lack of memory.
        """
        if storage_failure := self._storage.failure():
            return storage_failure
        if self.power is PowerState.ON and self.server.was_ended_from_outside():
            return f"the server was ended without a cut: {self.server.failure()}"
        return None

    def counters(self) -> dict[str, int]:
        """Return the drive's counters since power was last applied."""
        return self._storage.counters()

    def set_drive(self, changes: Mapping[str, Any]) -> None:
        """Change settings of the drive, see DriveSpec.changed()."""
        self._storage.set(changes)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Replace the server's settings; they count from the next restore on."""
        if self.power is PowerState.ON:
            raise LabError(
                "settings can change only while the power is off",
                id=ErrorId.POWER_STILL_ON,
                hint="Cut the power first.",
            )
        self.server.settings = dict(settings)

    def reassign(self, settings: Mapping[str, str], *, is_writer: bool) -> None:
        """Replace the server's settings, for its next start.

        They must not decide whether a commit waits for a flush: flushes_expected()
        takes the settings that are given for those of the server that runs.
        is_writer: Patroni does not start it after a cut.
        """
        self.server.settings = dict(settings)
        if isinstance(self.server, PatroniServer):
            self.server.set_role(is_writer=is_writer)

    def flushes_expected(self) -> bool:
        """Return True if every commit must make the drive see a flush."""
        may_skip_flush = any(
            self.server.settings.get(name, "").lower() in values
            for name, values in _VALUES_WITHOUT_FLUSH.items()
        )
        return self._storage.sends_flushes and not may_skip_flush

    def server_log(self, lines: int) -> str:
        """Return the last lines of the server's log."""
        return self.server.server_log(lines)

    def close(self) -> None:
        """End server and storage; their data is lost."""
        self.server.launcher.close()
        self._storage.close(self.server)
