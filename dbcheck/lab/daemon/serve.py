"""The process that holds a lab: its storage, its server and its sshd.

A Lab starts it as `python -m dbcheck.lab.daemon.serve ENTRY LOCK READY CLIENT NETWORK`.
ENTRY is the lab's record in the state folder; the others are descriptors: the lock to
hold, the pipe on which to report that the lab is ready, the pidfd of the client with
which the lab ends (-1: it outlives its client), and the network namespace of the server
(-1: the host's).
As process 1 the daemon is in namespaces of its own (see namespace.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, LabError
from dbcheck.lab import namespace, syscalls
from dbcheck.lab.calls import Callee, encode_failure, encode_success
from dbcheck.lab.certificates import Identity
from dbcheck.lab.daemon import rpc
from dbcheck.lab.daemon.interface import CutResult, Description, LabCalls, PowerStatus
from dbcheck.lab.drive.recording import RECORD_ANEW, Recordings
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.machine import Machine, make_server
from dbcheck.lab.network import Place, Source
from dbcheck.lab.process import Process
from dbcheck.lab.recorded import RecordedLab
from dbcheck.lab.restoring.restorer import Restorer
from dbcheck.lab.server_account import (
    Account,
    describe_missing_account,
    find_packaged_account,
)
from dbcheck.lab.servers.patroni import PatroniMember
from dbcheck.lab.spec import DATA_DRIVE, LabSpec
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.lab.state import LabRecord
from dbcheck.lab.storage.blocks import FileBlocks

log = logging.getLogger(__name__)

_ORDERLY_END_S = 10.0
_RECORD_S = 1.0  # between two checks that the record is still there
_RETRY_S = 1.0  # between two tries to end the lab
_COPIES = "copies"  # a folder beside the drives: no cut reaches it
_TOUCH_S = 3600.0  # between two touches of the record's files


class Daemon(LabCalls):
    """One lab, from its first file to its last.

    folder: outlives power cuts; the witness's logs lie in it.
    base:   the folder in which storage and server are.
    """

    def __init__(
        self,
        entry: LabRecord,
        lock: int,
        folder: Path,
        base: Path,
        spec: LabSpec,
        recordings: Recordings | None,
        source: Source | PatroniMember | None = None,
        account: Account | None = None,
        identity: Identity | None = None,
        place: Place | None = None,
    ) -> None:
        self._entry, self._lock = entry, lock
        self._spec, self._base, self._recordings = spec, base, recordings
        self._witness = folder / "witness"
        self._witness.mkdir(mode=0o700)
        self._socket = rpc.RequestServer(entry.control)
        self._sshd = Sshd(folder / "sshd")
        self._isolated = base != folder
        self._account = account
        self._restorer: Restorer | None = None
        self._machine = Machine(
            spec,
            base,
            recordings,
            _read_password(recordings),
            source=source,
            account=account,
            identity=identity,
            place=place,
        )

    def build(self) -> None:
        """Build everything; return once the server takes queries."""
        self._sshd.start()
        self._machine.build()
        self._note_processes()

    def serve(self) -> None:
        """Answer calls until down() is called."""
        self._socket.serve(Callee(LabCalls, self))

    def end(self) -> bool:
        """End every part of the lab, whichever of them were started.

        Return whether nothing of them is left once this process has ended, too.
        """
        failed = False
        restorer = [self._restorer.close] if self._restorer else []
        parts = [self._machine.close, self._sshd.close, self._socket.close]
        for part in [*restorer, *parts]:
            try:
                part()
            except DbcheckError as error:
                log.warning("while ending: %s", error)
                failed = True
            # A defect of one part must not keep the others from ending.
            except Exception:
                log.exception("while ending")
                failed = True
        return self._isolated or not failed

    def describe(self) -> Description:
        tls = self._machine.server.tls
        host = f"{quote(self._sshd.user)}@{self._sshd.host}:{self._sshd.port}"
        return Description(
            spec=self._spec.to_json(),
            target_url=self._machine.server.url,
            password=self._machine.server.password,
            witness_url=f"ssh://{host}{quote(str(self._witness))}",
            host_url=f"ssh://{host}",
            log_path=str(self._machine.server.log_file),
            authority_file=str(tls.authority) if tls else "",
            authority=tls.authority.read_text("ascii") if tls else "",
            identity_file=str(self._sshd.identity_file),
            known_hosts=str(self._sshd.known_hosts),
            drives=self._machine.drives(),
        )

    def status(self) -> PowerStatus:
        failure, broken = self._machine.failure(), self._machine.broken()
        if failure and self._recordings and self._recordings.replayed:
            # Another version, installed since the lab was built, may refuse sound data.
            recorded = RecordedLab.read(self._recordings.folder)
            recorded.require_server(self._machine.server.version())
        return PowerStatus(self._machine.power.value, failure, broken)

    def cut(self) -> CutResult:
        return CutResult(*self._machine.cut())

    def restore(self, image: str = "") -> None:
        self._machine.restore(Path(image) if image else None)
        self._note_processes()

    def restart(self) -> None:
        self._machine.restart()
        self._note_processes()

    def rejoin(self, port: int, password: str, member: str, host: str) -> None:
        self._machine.rejoin(Source(port, password, member, host))
        self._note_processes()

    def copy(self, port: int, password: str, member: str, host: str) -> None:
        self._machine.copy(Source(port, password, member, host))
        self._note_processes()

    def reassign(self, settings: dict[str, str], is_writer: bool) -> None:
        self._machine.reassign(settings, is_writer=is_writer)

    def start_server(self) -> None:
        self._machine.start()
        self._note_processes()

    def counters(self) -> dict[str, int]:
        return self._machine.counters()

    def set_drive(self, changes: dict[str, Any]) -> None:
        self._machine.set_drive(changes)

    def configure(self, settings: dict[str, str]) -> None:
        self._machine.configure(settings)

    def save_recordings(self) -> None:
        if self._recordings is None:
            raise LabError(
                "this lab records nothing",
                id=ErrorId.LAB_RECORDS_NOTHING,
                hint=RECORD_ANEW,
            )
        self._machine.save_recordings()
        recorded = RecordedLab(
            self._spec.to_json(),
            self._machine.server.version(),
            str(self._base),
            self._machine.server.password,
        )
        recorded.write(self._recordings.folder)

    def show(self, states: list[Shown], start: bool = True) -> PowerStatus:
        self._machine.show(states, start=start)
        return self.status()

    def blocks(self) -> list[FileBlocks]:
        return self._machine.blocks()

    def freeze(self) -> None:
        self._machine.server.freeze()
        self._note_processes()

    def thaw(self) -> None:
        self._machine.server.thaw()

    def log(self, lines: int) -> str:
        return self._machine.server_log(lines)

    def prepare_copies(self, method: str) -> str:
        copies, run = self._base / _COPIES / "of-server", self._base / "restored"
        server = self._machine.server
        self._restorer = Restorer(
            *(method, server, copies, run, self._account, self._machine.parts)
        )
        self._restorer.begin()
        self._note_processes()
        return self._restorer.server.url

    def copied_folders(self) -> list[tuple[str, str]]:
        return self._require_restorer().list_folders()

    def resume_shipping(self) -> None:
        self._require_restorer().resume()

    def take_copy(self, name: str) -> None:
        self._require_restorer().take(name)
        self._note_processes()

    def copy_is_taken(self) -> bool:
        return self._require_restorer().is_taken()

    def restore_copy(self, name: str, point: str) -> None:
        self._require_restorer().restore(name, point)
        self._note_processes()

    def remove_copy(self, name: str) -> None:
        self._require_restorer().remove(name)

    def _require_restorer(self) -> Restorer:
        if self._restorer is None:
            raise LabError(
                "this lab takes no copies of its server",
                id=ErrorId.COPY_NOT_TAKEN,
                hint="Start a lab that does: dbcheck lab run --restore.",
            )
        return self._restorer

    def down(self) -> None:
        raise rpc.Ended

    def _note_processes(self) -> None:
        """Record the processes to kill if we die, unless the kernel then kills them."""
        if not self._isolated and is_on_record(self._lock):
            pids = self._machine.server.pids()
            pids += self._restorer.pids() if self._restorer else []
            self._entry.note(processes=[p for pid in pids if (p := Process.of(pid))])


def is_on_record(lock: int) -> bool:
    """Return True if the lab's record is still there.

    lock: of the record; another lab may have its record at the same path by now.
    """
    return os.fstat(lock).st_nlink > 0


def _start_watch(entry: LabRecord, client: int, lock: int) -> None:
    """End this process in an orderly way when the client or the lab's record is gone.

    Nothing else notices the client's end; a pidfd does not depend on the client's
    threads and forks.  A record can go with the runtime folder that it is in, which is
    removed when its account logs out, and nobody would find a lab without a record.
    If the orderly end takes too long, the process is ended by force; but not without a
    record, since nobody would then find what is left.
    client: its pidfd, -1 if there is none.  lock: the descriptor of the record's lock.
    """
    ends = [client] if client >= 0 else []
    record = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def await_end() -> None:
        touch_due_s = 0.0
        while is_on_record(lock) and not select.select(ends, [], [], _RECORD_S)[0]:
            if time.monotonic() >= touch_due_s:
                _touch_files(record)
                touch_due_s = time.monotonic() + _TOUCH_S
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_ORDERLY_END_S)
        if is_on_record(lock):  # it may have gone with the client
            os._exit(1)

    threading.Thread(target=await_end, name="client watch", daemon=True).start()


def _touch_files(record: int) -> None:
    """Set the times of the record and its files to now.

    The record may be in /tmp, where systemd-tmpfiles removes files of ten days.
    record: a descriptor of its folder, since our mounts may cover the path.
    """
    with contextlib.suppress(OSError):  # a file is replaced, or all are removed
        os.utime(record)
        for name in os.listdir(record):
            os.utime(name, dir_fd=record, follow_symlinks=False)


def _read_password(recordings: Recordings | None) -> str:
    """Return the password of the server in the recordings that are replayed, or ""."""
    if recordings is None or not recordings.replayed:
        return ""
    return RecordedLab.read(recordings.folder).password


def _read_recordings(entry: LabRecord) -> Recordings | None:
    noted = entry.read().get("recordings")
    if not isinstance(noted, dict):
        return None
    return Recordings(Path(noted["folder"]), bool(noted["replayed"]))


def _read_source(entry: LabRecord) -> Source | PatroniMember | None:
    """Return the server to follow, or the Patroni cluster to be a member of."""
    match entry.read():
        case {"source": dict(noted)}:
            return Source(**noted)
        case {"member": dict(noted)}:
            return PatroniMember(**noted)
        case _:
            return None


def _find_account(entry: LabRecord, spec: LabSpec, *, isolated: bool) -> Account | None:
    """Return the account of the server in root's lab, None in an ordinary user's.

    The lab's own account gets a name in its namespaces.  Raise LabError if there is no
    account.
    """
    if os.geteuid() != 0:
        return None
    number = entry.account()
    if number is None:
        names = make_server(spec).accounts
        found = find_packaged_account(names)
        if found is None:
            raise LabError(
                describe_missing_account(names), id=ErrorId.UNPRIVILEGED_ACCOUNT_MISSING
            )
        return found
    account = Account.of_number(number)
    if isolated:
        namespace.name_account(account)
    return account


def _read_identity(entry: LabRecord) -> Identity | None:
    """Read the certificates by which the cluster's other nodes know the server."""
    noted = entry.read().get("identity")
    return Identity(**noted) if isinstance(noted, dict) else None


def _prepare_folder(
    entry: LabRecord, folder: Path, recordings: Recordings | None, *, isolated: bool
) -> Path:
    """Make the folder in which storage and server are, and return it.

    If recordings are replayed, it has the path that it had when they were made.
    """
    os.chdir("/")
    os.umask(0o022)
    on_disk = [folder / name for name in (DATA_DRIVE, _COPIES)]
    for each in on_disk:
        each.mkdir()
    if not isolated:
        return folder
    recording_folders = [recordings.folder] if recordings else []
    namespace.drop_loop_mounts(
        folder, entry.path, *recording_folders, *_list_program_folders()
    )
    namespace.mask_system_folders(folder, entry.path, *recording_folders)
    base = namespace.BASE / entry.name
    if recordings and recordings.replayed:
        base = Path(RecordedLab.read(recordings.folder).base)
    # The server's account may not pass through the folders above these.
    for each in on_disk:
        (base / each.name).mkdir(parents=True)
        namespace.bind_mount(each, base / each.name)
    return base


def _list_program_folders() -> Iterator[Path]:
    """Yield the folders of this program and of the programs that it starts."""
    yield from map(
        Path, (*sys.path, sys.prefix, sys.base_prefix, tempfile.gettempdir())
    )
    for value in os.environ.values():
        yield from (Path(path) for path in value.split(":") if path.startswith("/"))


@contextlib.contextmanager
def make_remover(folder: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that removes *folder*, and returns whether it is gone.

    This process's mounts may cover its path meanwhile, so a descriptor of the folder
    above it is kept.
    """
    parent = os.open(folder.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def remove() -> bool:
        with contextlib.suppress(RecursionError):  # the server may nest folders
            shutil.rmtree(folder.name, ignore_errors=True, dir_fd=parent)
        if os.access(folder.name, os.F_OK, dir_fd=parent, follow_symlinks=False):
            log.warning("cannot remove %s", folder)
            return False
        return True

    try:
        yield remove
    finally:
        os.close(parent)


def _read_place(entry: LabRecord, network: int) -> Place | None:
    """Return the server's place in the open *network*; None if there is none (-1)."""
    if network < 0:
        return None
    return Place(network, str(entry.read()["address"]))


def _run_lab(
    entry: LabRecord, lock: int, ready: int, network: int, *, isolated: bool
) -> None:
    """Build the lab, serve it until it is to end, and leave nothing of it.

    If something is left, the record stays too: `lab down` reads there what to remove.
    The error of a lab that cannot be built is raised once nothing is left of the lab.
    """
    folder = entry.folder()
    if folder is None:
        raise LabError(
            f"{entry.facts} names no folder",
            id=ErrorId.LAB_STATE_DAMAGED,
            hint=f"Run dbcheck lab down {entry.name}, then start a new lab.",
        )
    daemon = None
    with (
        make_remover(folder) as remove_folder,
        make_remover(entry.path) as remove_record,
    ):
        try:
            recordings = _read_recordings(entry)
            base = _prepare_folder(entry, folder, recordings, isolated=isolated)
            spec = LabSpec.from_json(str(entry.read()["spec"]))
            account = _find_account(entry, spec, isolated=isolated)
            daemon = Daemon(
                entry=entry,
                lock=lock,
                folder=folder,
                base=base,
                spec=spec,
                recordings=recordings,
                source=_read_source(entry),
                account=account,
                identity=_read_identity(entry),
                place=_read_place(entry, network),
            )
            daemon.build()
            _report(ready, encode_success(None))
            daemon.serve()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            ended = daemon is None or _end_daemon(daemon, lock)
            if ended and remove_folder() and is_on_record(lock):
                remove_record()


def _end_daemon(daemon: Daemon, lock: int) -> bool:
    """End the daemon's lab; return whether nothing of it will be left.

    Once its record is gone, only this process knows what is left, so it tries on.
    """
    while not daemon.end():
        if is_on_record(lock):
            return False
        time.sleep(_RETRY_S)
    return True


def _report(ready: int, reply: bytes) -> None:
    with contextlib.suppress(OSError):  # the client is gone
        os.write(ready, reply + b"\n")
        os.close(ready)


def _exit(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def main() -> None:
    """Be the daemon of one lab until it ends."""
    entry = LabRecord(Path(sys.argv[1]))
    lock, ready, client, network = map(int, sys.argv[2:6])
    for descriptor in (lock, ready, client, network):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    isolated = os.getpid() == 1
    if isolated:
        namespace.leave_init_behind()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    if os.geteuid() == 0:  # the server then runs as another account
        syscalls.leave_keyring()
    _start_watch(entry, client, lock)
    try:
        _run_lab(entry, lock, ready, network, isolated=isolated)
    except DbcheckError as error:
        _report(ready, encode_failure(error))
    except Exception as error:
        _report(ready, encode_failure(rpc.describe_fault(error)))
        raise


if __name__ == "__main__":
    main()
