"""A lab as its users hold it: started, found again, cut through its switch, ended."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import ParamSpec, TypeVar

from dbcheck.base import interrupt, processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.base.owners import exchangeable
from dbcheck.lab import namespace, programs, server_account, state
from dbcheck.lab.calls import Method, decode_result_as
from dbcheck.lab.certificates import Identity
from dbcheck.lab.daemon import rpc
from dbcheck.lab.daemon.interface import LabCalls, PowerStatus
from dbcheck.lab.drive.recording import Recordings
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.machine import make_server
from dbcheck.lab.network import Place, Source, list_missing_for_network
from dbcheck.lab.process import Process
from dbcheck.lab.programs import list_missing_for_drive
from dbcheck.lab.recorded import RecordedLab
from dbcheck.lab.servers.mysql import require_no_group
from dbcheck.lab.servers.patroni import PatroniMember
from dbcheck.lab.spec import LAYER, LabSpec
from dbcheck.lab.ssh import sshd
from dbcheck.lab.state import LabRecord
from dbcheck.lab.storage.blocks import FileBlocks
from dbcheck.lab.switch import LabSwitch
from dbcheck.remote.address import SshOptions

T = TypeVar("T")
P = ParamSpec("P")

_PATRONI_NEEDS_NAMESPACES = (
    "PostgreSQL outlives the Patroni that started it, and only namespaces end both (run"
    " dbcheck as root with CAP_SYS_ADMIN)"
)
_CONTAINER_NEEDS_NAMESPACES = (
    "a container needs namespaces of its own (run dbcheck as root with CAP_SYS_ADMIN)"
)

_START_TIMEOUT_S = 120.0
_DOWN_TIMEOUT_S = 20.0
_DEAD_TIMEOUT_S = 20.0  # for the kernel to end all processes of a killed daemon
_POLL_S = 0.005
_LOG_TAIL_BYTES = 2000


class Lab:
    """One running lab.

    name:        by which find() and LabSwitch know the lab.
    spec:        the specification that it was started from.
    target_url:  the server's URL, without the password, which `password` has.
    witness_url: a folder behind the lab's sshd, not on the drive; ssh needs
                 identity_file and known_hosts to get there.
    host_url:    the URL of the lab's sshd, to read the server's files;
    log_path:    the server's log, one of these files.
    authority:   the certificate of the authority of the cluster's nodes, in PEM;
    authority_file: the server's copy of it.  Both are "" outside a cluster.
    drives:      the serials of the virtual drives, see LoopDevice.serial.
    """

    def __init__(
        self, entry: LabRecord, daemon: subprocess.Popen[bytes] | None
    ) -> None:
        """Ask the daemon for the facts; use start() or find()."""
        self._entry = entry
        self._daemon = daemon
        facts = self._call(LabCalls.describe)
        self.name = entry.name
        self.spec = LabSpec.from_json(facts.spec)
        self.target_url = facts.target_url
        self.password = facts.password
        self.witness_url = facts.witness_url
        self.host_url = facts.host_url
        self.log_path = facts.log_path
        self.authority = facts.authority
        self.authority_file = facts.authority_file
        self.identity_file = Path(facts.identity_file)
        self.known_hosts = Path(facts.known_hosts)
        self.drives = facts.drives

    @classmethod
    def start(
        cls,
        spec: LabSpec,
        folder: Path,
        *,
        keep: bool = False,
        name: str = "",
        recordings: Recordings | None = None,
        source: Source | PatroniMember | None = None,
        identity: Identity | None = None,
        place: Place | None = None,
    ) -> Lab:
        """Build a lab and return once its server takes queries.

        folder: made here, removed with the lab; holds the witness's logs.
        keep:   False: the lab ends with this process, whatever ends it; True: the lab
                stays until down().
        recordings: where its drives record all requests until the first cut; or the
                recordings that they replay: then no server runs until show().
        source: the server that the lab's server is to follow, as a copy of it, or the
                Patroni cluster that it is to be a member of.
        identity: the certificates by which a cluster's other nodes know its server.
        place: its server's in the network of its cluster.
        Raise LabError, with nothing left behind, if the lab cannot be built;
        UsageError if only the lab decides a setting, or cannot use its value.
        """
        require_buildable(spec, alone=identity is None)
        if recordings and not namespace.are_available():
            raise LabError(
                "recordings need namespaces, which this process may not make",
                id=ErrorId.NAMESPACES_NOT_POSSIBLE,
                hint="Run it as root with CAP_SYS_ADMIN, and install unshare"
                " (util-linux).",
            )
        if recordings and recordings.replayed:
            recorded = RecordedLab.read(recordings.folder)
            recorded.require_server(make_server(spec).version())
        state.remove_dead()
        entry, lock = state.create(name)
        daemon = None
        try:
            _prepare_folder(entry, spec, folder, recordings, keep=keep)
            _note_cluster(entry, source, identity, place)
            with interrupt.hold_interrupts_back():
                daemon, ready = _spawn_daemon(entry, lock, place, keep=keep)
            os.close(lock)
            lock = -1
            _await_ready(entry, ready)
            lab = cls(entry, None if keep else daemon)
            if keep:
                daemon.returncode = 0  # no wait at its end, as it outlives this process
            return lab
        except BaseException:
            if daemon is not None:
                daemon.kill()
                daemon.wait()
            if lock >= 0:
                os.close(lock)
            _remove_dead_lab(entry)
            raise

    @classmethod
    def find(cls, name: str) -> Lab:
        """Return the running lab of that name; raise LabError if there is none."""
        return cls(state.find(name), None)

    @property
    def folder(self) -> Path:
        """Folder that start() made; raise LabError if it was removed with the lab."""
        folder = self._entry.folder()
        if folder is None:
            raise LabError(
                f"the lab {self.name} has ended",
                id=ErrorId.LAB_NOT_RUNNING,
                hint="Start it anew.",
            )
        return folder

    @property
    def ssh(self) -> SshOptions:
        """SSH options of the lab's sshd; the user's ssh configuration is not read."""
        return SshOptions(
            identity_file=self.identity_file,
            known_hosts=self.known_hosts,
            config_file=Path(os.devnull),
        )

    def switch(self) -> LabSwitch:
        """Return the switch of this lab's power."""
        return LabSwitch(self.name)

    def counters(self) -> dict[str, int]:
        """Return the drive's counters since power was last applied; {} if no drive."""
        return self._call(LabCalls.counters)

    def server_log(self, lines: int = 20) -> str:
        """Return the last lines of the server's log."""
        return self._call(LabCalls.log, lines)

    def freeze_server(self) -> None:
        """Freeze the server's processes: connections stay open and fall silent."""
        self._call(LabCalls.freeze)

    def thaw_server(self) -> None:
        """Resume a frozen server."""
        self._call(LabCalls.thaw)

    def set_drive(self, **changes: float | str) -> None:
        """Change these settings of the drive, see DriveSpec.changed()."""
        self._call(LabCalls.set_drive, changes)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Replace the server's settings, with the power off, for its next start."""
        self._call(LabCalls.configure, dict(settings))

    def rejoin(self, source: Source) -> None:
        """Have the server, once a writer, follow *source*; raise LabError.

        It is shut down before and started again after that.
        """
        self._call(
            LabCalls.rejoin, source.port, source.password, source.member, source.host
        )

    def copy(self, source: Source) -> None:
        """Give the server new data, by which it follows *source*; raise LabError.

        What it had is deleted.
        """
        self._call(
            LabCalls.copy, source.port, source.password, source.member, source.host
        )

    def reassign(self, settings: Mapping[str, str], *, is_writer: bool = False) -> None:
        """Replace the server's settings, for its next start.

        They must not decide whether a commit waits for a flush.
        is_writer: after a cut Patroni does not start the server, so that it can be read
                   as the cut left it.
        """
        self._call(LabCalls.reassign, dict(settings), is_writer)

    def save_recordings(self) -> None:
        """Store what its drives recorded until the first cut; raise LabError."""
        self._call(LabCalls.save_recordings)

    def show(self, states: Sequence[Shown], *, start: bool = True) -> PowerStatus:
        """Hold and recover a crash state of the recordings; return the status then.

        states: one for each drive, the data drive's first.  start: False starts no
        server.  Raise LabError if the lab itself failed.
        """
        return self._call(LabCalls.show, list(states), start)

    def blocks(self) -> list[FileBlocks]:
        """Return the place of each file's blocks on its drives."""
        return self._call(LabCalls.blocks)

    def prepare_copies(self, method: str) -> str:
        """Hold a port for a server on copies of this lab's; return that server's URL.

        method: its name, see restoring.registry.METHODS.  The password is the lab's.
        """
        return self._call(LabCalls.prepare_copies, method)

    def copied_folders(self) -> list[tuple[str, str]]:
        """Return each drive's mount point, and that of its copy once it is restored.

        [] if the method of prepare_copies() does not copy drives.
        """
        return self._call(LabCalls.copied_folders)

    def resume_shipping(self) -> None:
        """Return once the server's log is shipped again, if it is shipped at all."""
        self._call(LabCalls.resume_shipping)

    def take_copy(self, name: str) -> None:
        """Begin to take the copy *name* of the server."""
        self._call(LabCalls.take_copy, name)

    def copy_is_taken(self) -> bool:
        """Return whether that copy is complete; raise LabError if that failed."""
        return self._call(LabCalls.copy_is_taken)

    def restore_copy(self, name: str, point: str) -> None:
        """Start a server on the copy *name*; it may still be in recovery then.

        point: to which what was shipped is restored; "" for all, and for a copy.
        Raise LabError, with the decisive lines of its log, if it does not start.
        """
        self._call(LabCalls.restore_copy, name, point)

    def remove_copy(self, name: str) -> None:
        """End the server on the copy *name*, and remove both."""
        self._call(LabCalls.remove_copy, name)

    def close(self) -> None:
        """End the lab and remove its files, also if the lab is dead."""
        _end_lab(self._entry)
        if self._daemon is not None:
            self._daemon.wait()

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Method[P, T], *args: P.args, **named: P.kwargs) -> T:
        return rpc.call(self._entry.control, method, *args, **named)


def list_persistent_labs() -> list[str]:
    """Return the names of this account's labs that no client holds.

    These are the labs that were started to stay, and the dead labs.
    """
    names = list_attached_labs()
    return [entry.name for entry in state.list_labs() if entry.name not in names]


def list_attached_labs() -> list[str]:
    """Return the names of this account's labs that end with their client."""
    entries = state.list_labs()
    return [entry.name for entry in entries if entry.alive() and not entry.stays()]


def down(name: str) -> bool:
    """End the lab of that name and remove its files, also if the lab is dead.

    Return whether it was alive.  Raise LabError if there is no such lab.
    """
    entry = state.make_record(name)
    alive = entry.alive()
    if not alive and not entry.path.exists():
        state.find(name)  # raises
    _end_lab(entry)
    return alive


def require_buildable(spec: LabSpec, *, alone: bool = False) -> None:
    """Raise UsageError for a spec's settings, LabError if it cannot be built here.

    alone: the lab is no node of a cluster.
    """
    make_server(spec).check_settings(spec.settings)
    if alone:
        require_no_group(spec.settings)
    if lacking := list_missing(spec):
        raise LabError(
            f"cannot build this lab on this machine: {'; '.join(lacking)}",
            id=ErrorId.LAB_NOT_BUILDABLE,
            hint="Fix that, or use --cut process."
            if spec.cut == "drive"
            else "Fix that first.",
        )


def list_missing(spec: LabSpec) -> list[str]:
    """List what this machine lacks for such a lab, each as a clause; [] if nothing."""
    reasons = [] if spec.cut == "process" else list_missing_for_drive(spec.filesystem)
    if programs.find("setpriv") is None:
        reasons.append(programs.lacking("setpriv"))
    if not namespace.are_available():
        if spec.patroni:
            reasons.append(_PATRONI_NEEDS_NAMESPACES)
        if spec.contained:
            reasons.append(_CONTAINER_NEEDS_NAMESPACES)
    if spec.network:
        reasons += list_missing_for_network()
    if spec.container == LAYER and not programs.has_kernel_filesystem("overlay"):
        reasons.append(
            "the kernel has no overlay filesystem, which --container layer needs"
        )
    kind = make_server(spec)
    needs_packaged_account = os.geteuid() == 0 and not _has_own_account(spec)
    if (
        needs_packaged_account
        and server_account.find_packaged_account(kind.accounts) is None
    ):
        reasons.append(server_account.describe_missing_account(kind.accounts))
    return [*reasons, *kind.missing(), *sshd.list_missing()]


def _has_own_account(spec: LabSpec) -> bool:
    """Return True if root can run the server as an account of the lab's own.

    An account that must have a name gets it in a namespace of the lab's.
    """
    return namespace.are_available() or not make_server(spec).needs_entry


def choose_lab_cut(engine: str) -> str:
    """Return "drive" if this machine can cut a lab's drive, else "process"."""
    return "process" if list_missing(LabSpec(engine, cut="drive")) else "drive"


def _prepare_folder(
    entry: LabRecord,
    spec: LabSpec,
    folder: Path,
    recordings: Recordings | None,
    *,
    keep: bool,
) -> None:
    """Make the lab's folder, and note it, before anything else is made."""
    folder = folder.parent.resolve() / folder.name
    _require_private(folder)
    # Without namespaces a server of another account must be able to pass through it.
    is_passed_through = os.geteuid() == 0 and not namespace.are_available()
    try:
        folder.mkdir(mode=0o711 if is_passed_through else 0o700)
    except FileExistsError:
        raise LabError(
            f"{folder} already exists",
            id=ErrorId.FILE_EXISTS,
            hint="Name a new folder.",
        ) from None
    except OSError as error:
        raise _make_folder_error(folder, error) from None
    try:
        _require_private(folder)  # a parent may have been made after the first check
    except LabError:
        with contextlib.suppress(OSError):  # another user may have exchanged it by now
            folder.rmdir()
        raise
    entry.note(folder=str(folder), spec=spec.to_json(), stays=keep)
    if os.geteuid() == 0 and _has_own_account(spec):
        state.reserve_account(entry)
    if recordings:
        where = str(recordings.folder.resolve())
        entry.note(recordings={"folder": where, "replayed": recordings.replayed})


def _note_cluster(
    entry: LabRecord,
    source: Source | PatroniMember | None,
    identity: Identity | None,
    place: Place | None,
) -> None:
    """Note what the daemon must know of the cluster that the server is to join."""
    match source:
        case Source():
            entry.note(source=dataclasses.asdict(source))
        case PatroniMember():
            entry.note(member=dataclasses.asdict(source))
    if identity is not None:
        entry.note(identity=dataclasses.asdict(identity))
    if place is not None:
        entry.note(address=place.address)


def _require_private(folder: Path) -> None:
    """Raise LabError if others could exchange a lab's *folder*, or one above it."""
    try:
        why = exchangeable(str(folder))
    except OSError as error:
        raise _make_folder_error(folder, error) from None
    if why:
        raise LabError(
            f"others could exchange {folder}: {why}",
            id=ErrorId.FOLDER_OPEN_TO_OTHERS,
            hint="Change that with chmod or chown (/tmp and /var/tmp need chmod 1777), "
            "or set TMPDIR to a folder of your own.",
        )


def _make_folder_error(folder: Path, error: OSError) -> LabError:
    return LabError(
        f"cannot make {folder}: {error.strerror}",
        id=ErrorId.FOLDER_NOT_WRITABLE,
        hint="Name another folder, or set TMPDIR to one of your own.",
    )


def _spawn_daemon(
    entry: LabRecord, lock: int, place: Place | None, *, keep: bool
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the daemon; return it and the pipe on which it reports that it is ready.

    The daemon watches this process by a pidfd: a pidfd works through pid namespaces,
    and this process's threads and forks do not confuse it, as they would confuse a
    death signal or a pipe.
    """
    own_pidfd = -1 if keep else os.pidfd_open(os.getpid())
    ready, ready_child = os.pipe()
    network = place.namespace if place else -1
    descriptors = (lock, ready_child, own_pidfd, network)
    command = processes.make_module_command(
        "dbcheck.lab.daemon.serve", str(entry.path), *map(str, descriptors)
    )
    if namespace.are_available():
        command = namespace.command_prefix() + command
    try:
        with entry.log.open("ab") as log:
            daemon = subprocess.Popen(
                command,
                env=processes.make_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[descriptor for descriptor in descriptors if descriptor >= 0],
                start_new_session=True,
            )
    except BaseException:
        os.close(ready)
        raise
    finally:
        os.close(ready_child)
        if own_pidfd >= 0:
            os.close(own_pidfd)
    if process := Process.of(daemon.pid):
        entry.note(daemon=process)
    return daemon, ready


def _await_ready(entry: LabRecord, ready: int) -> None:
    """Wait for the daemon's report; close the pipe; raise LabError if it failed."""
    with open(ready, "rb") as pipe:
        if not select.select([pipe], [], [], _START_TIMEOUT_S)[0]:
            raise LabError(
                f"the lab is not ready after {_START_TIMEOUT_S:g} s",
                id=ErrorId.LAB_NOT_READY,
                hint="Look for a lack of memory or CPU here, then start it again.",
            )
        reply = pipe.readline()
    if not reply:
        raise LabError(
            f"the lab's daemon died while starting: {_read_tail(entry.log)}",
            id=ErrorId.LAB_DAEMON_FAILED,
            hint="The daemon's message has the reason.",
        )
    decode_result_as(reply, NoneType)


def _read_tail(log: Path) -> str:
    try:
        text = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except OSError as error:
        return str(error.strerror)
    return text.strip() or "its log is empty"


def _end_lab(entry: LabRecord) -> None:
    """End a lab gently if it answers, by force if not, and remove its files."""
    daemon = entry.daemon()
    try:
        rpc.call(entry.control, LabCalls.down)
        deadline = time.monotonic() + _DOWN_TIMEOUT_S
    except LabError:
        deadline = time.monotonic()
    while daemon is not None and daemon.alive():
        if time.monotonic() >= deadline:
            daemon.kill()
        time.sleep(_POLL_S)
    _remove_dead_lab(entry)


def _remove_dead_lab(entry: LabRecord) -> None:
    if not entry.wait_until_dead(_DEAD_TIMEOUT_S):
        raise LabError(
            f"cannot end the daemon of lab {entry.name}",
            id=ErrorId.LAB_NOT_ENDED,
            hint=f"Run dbcheck lab down {entry.name} again.",
        )
    state.remove_dead(frozenset({entry.name}))
