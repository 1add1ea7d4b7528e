"""The state folder, which lists the labs of this account and what dead labs left.

Its subfolder NAME belongs to one lab: `lock` is held as long as the lab's daemon lives
(the kernel releases it, whatever ends the daemon), `control` is the daemon's socket,
`daemon.log` its log, `lab.json` names its files and processes.  Only the account that
made the state folder can enter it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab.process import Process, remove_segments
from dbcheck.lab.server_account import draw_id

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class LabRecord:
    """One lab's folder in the state folder."""

    path: Path

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.path.name

    @property
    def control(self) -> Path:
        """Path of the daemon's socket."""
        return self.path / "control"

    @property
    def log(self) -> Path:
        """File of the daemon's standard error."""
        return self.path / "daemon.log"

    @property
    def facts(self) -> Path:
        """The file that note() writes."""
        return self.path / "lab.json"

    def note(self, **facts: object) -> None:
        """Add *facts* to those that are noted of this lab, by replacing the file."""
        text = json.dumps({**self.read(), **facts})
        draft = self.path / "lab.json.new"
        draft.touch(mode=0o600)
        draft.write_text(text)
        draft.replace(self.facts)

    def read(self) -> dict[str, object]:
        """Return the facts that are noted of this lab, {} if there are none."""
        try:
            facts = json.loads(self.facts.read_text())
        except (FileNotFoundError, ValueError, RecursionError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def folder(self) -> Path | None:
        """Return the folder that holds the lab's files, None if none was noted."""
        value = self.read().get("folder")
        return Path(value) if isinstance(value, str) else None

    def daemon(self) -> Process | None:
        """Return the process with which the daemon ends, None if none was noted."""
        return _parse_process(self.read().get("daemon"))

    def processes(self) -> list[Process]:
        """Return the processes that the daemon started and noted, dead or alive."""
        value = self.read().get("processes")
        parsed = map(_parse_process, value if isinstance(value, list) else [])
        return [process for process in parsed if process is not None]

    def account(self) -> int | None:
        """Return the user and group id that is this lab's alone, None if it has none.

        No other lab gets the id until what this lab left is removed.
        """
        value = self.read().get("account")
        return value if type(value) is int else None

    def stays(self) -> bool:
        """Return True if the lab was started to outlive its client."""
        return bool(self.read().get("stays"))

    def alive(self) -> bool:
        """Return True if the daemon lives (its lock is held)."""
        return _is_locked(self.path / "lock")

    def wait_until_dead(self, timeout_s: float) -> bool:
        """Wait until the daemon is dead; return whether it is."""
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


def _parse_process(note: object) -> Process | None:
    """Return the process in a note, None if the note is invalid."""
    match note:
        case [int(pid), int(start_ticks)] if pid > 0:
            return Process(pid, start_ticks)
    return None


def open_state_folder() -> Path:
    """Return the state folder of this account; create it if it is not there.

    For root it is /run/dbcheck, else dbcheck in $XDG_RUNTIME_DIR if that belongs to
    this account alone, else /tmp/dbcheck-UID.  Raise LabError if another account made
    it, or may read or write it.
    """
    user = os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if user == 0:
        path = Path("/run/dbcheck")
    elif runtime and _is_private(Path(runtime)):
        path = Path(runtime) / "dbcheck"
    else:
        path = Path("/tmp") / f"dbcheck-{user}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if not _is_private(path):
        raise LabError(
            f"{path} is not a folder that belongs to this account alone",
            id=ErrorId.FOLDER_OF_OTHER_USER,
            hint=f"Find out who created {path}, and remove it.",
        )
    return path


def _is_private(path: Path) -> bool:
    """Return True if *path* is a folder that this account owns and alone may use."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_ours_alone = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return stat.S_ISDIR(status.st_mode) and is_ours_alone


def _is_locked(path: Path) -> bool:
    """Return True if the lock is held exclusively.

    Another process that only looks at the same moment holds it shared.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def _lock_state_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from adding and removing labs while the body runs."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def create(name: str) -> tuple[LabRecord, int]:
    """Make the record of a new lab; return it and the descriptor that is its lock.

    An empty *name* stands for a name drawn at random.  The lab counts as alive until
    every copy of the descriptor is closed.  Raise UsageError if the name is invalid,
    LabError if a lab of that name runs or was not cleaned up.
    """
    entry = make_record(name or f"lab-{secrets.token_hex(4)}")
    with _lock_state_folder(entry.path.parent):
        try:
            entry.path.mkdir(mode=0o700)
        except FileExistsError:
            raise LabError(
                f"a lab named {entry.name} already exists",
                id=ErrorId.LAB_EXISTS,
                hint=f"Use another name, or run `dbcheck lab down {entry.name}` first.",
            ) from None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(entry.path / "lock", flags, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return entry, descriptor


def reserve_account(entry: LabRecord) -> None:
    """Draw a user and group id for the server of a lab, and note it; raise LabError.

    No other lab gets the same id until this lab's record is removed.
    """
    with _lock_state_folder(entry.path.parent):
        accounts = (other.account() for other in list_labs())
        number = draw_id({account for account in accounts if account is not None})
        entry.note(account=number)


def list_labs() -> list[LabRecord]:
    """Return all labs of this account, alive or not, by name."""
    paths = (
        path for path in open_state_folder().iterdir() if _NAME.fullmatch(path.name)
    )
    return [LabRecord(path) for path in sorted(paths)]


def make_record(name: str) -> LabRecord:
    """Return the record of the lab *name*, whether the lab exists or not."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"invalid lab name: {name!r}",
            id=ErrorId.LAB_NAME_INVALID,
            hint="Use lower-case letters, digits and dashes, 40 at most.",
        )
    return LabRecord(open_state_folder() / name)


def find(name: str) -> LabRecord:
    """Return the record of the living lab *name*; raise LabError if there is none."""
    entry = make_record(name)
    if entry.alive():
        return entry
    others = ", ".join(entry.name for entry in list_labs() if entry.alive())
    raise LabError(
        f"no lab named {name} is running",
        id=ErrorId.LAB_NOT_RUNNING,
        hint=f"Running are: {others or 'none'}.",
    )


def remove_dead(names: frozenset[str] | None = None) -> list[str]:
    """Remove everything that dead labs left; return their names.

    names: the labs to look at; None for all.  Living labs are not touched.  Raise
    LabError if something cannot be removed.
    """
    folder = open_state_folder()
    removed = []
    with _lock_state_folder(folder):
        for entry in list_labs():
            if (names is None or entry.name in names) and not entry.alive():
                _remove(entry)
                removed.append(entry.name)
    return removed


def _remove(entry: LabRecord) -> None:
    processes = entry.processes()
    for process in processes:
        process.kill()
    remove_segments(processes)
    folder = entry.folder()
    if folder is not None and folder.exists():
        try:
            shutil.rmtree(folder)
        except (OSError, RecursionError) as error:  # the server may nest folders
            raise LabError(
                f"cannot remove {folder}, which the lab {entry.name} left: {error}",
                id=ErrorId.LAB_NOT_REMOVED,
                hint=f"Remove it (rm -rf {folder}), or run `dbcheck lab down"
                f" {entry.name}` again.",
            ) from None
    shutil.rmtree(entry.path, ignore_errors=True)
