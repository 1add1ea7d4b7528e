"""The account of a lab's server, where root runs the lab, and the files made for it.

Each lab has a user and a group id of its own, so that one lab's server can do nothing
to another's, nor to any other process of the machine.  Only where that is not possible
is an account of the machine used, which other services may share.

In a folder that the account may write in, it may at any moment exchange a file for a
link, a pipe or another user's file.  So root makes files only in its own folders, gives
open files away by their descriptors, and checks an opened file before it reads it.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import random
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable

# Ids that nobody hands out (systemd.io/UIDS-GIDS, "unused"), above those that SSSD maps
# by default (sssd-ad(5), ldap_idmap_range_max).  The second range is for a user
# namespace, as a container's, that has no more than 65,536 ids.
_ID_RANGES = (range(2_000_200_001, 2_147_352_576), range(60_706, 61_184))
_ID_TRIES = 200
_ID_MAPS = ("/proc/self/uid_map", "/proc/self/gid_map")  # user_namespaces(7)
_SUBORDINATE = ("/etc/subuid", "/etc/subgid")  # subuid(5)
_ID_LINES = re.compile(r"^(?:Uid|Gid|Groups):(.*)", re.MULTILINE)  # proc(5), status


@dataclass(frozen=True, slots=True)
class Account:
    """An operating system account to run a server as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @classmethod
    def of_number(cls, number: int) -> Account:
        """Return the account whose user and only group have that id."""
        return cls(number, number)

    @property
    def name(self) -> str:
        """Name of the account in the namespaces of its lab."""
        return f"dbcheck-{self.uid}"


def find_packaged_account(names: Iterable[str]) -> Account | None:
    """Return the first account of these names that the machine has, None if none."""
    for name in names:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            groups = tuple(os.getgrouplist(name, entry.pw_gid))
            return Account(entry.pw_uid, entry.pw_gid, groups)
    return None


def describe_missing_account(names: Sequence[str]) -> str:
    """Return a clause: the machine has none of the accounts, and what to do."""
    return (
        f"there is no account {names[0]} to run the server as (create it with useradd"
        f" --system {names[0]}, run dbcheck as root with CAP_SYS_ADMIN, or as an"
        " ordinary user)"
    )


def draw_id(taken: Collection[int]) -> int:
    """Return a user and group id that nothing on this machine has.

    taken: the ids of other labs.  Raise LabError if no free id was found.
    """
    choices = next(filter(None, map(_intersect_mapped_ids, _ID_RANGES)), range(0))
    used = {*taken, *_list_used_ids()}
    subordinate = [ids for file in _SUBORDINATE for ids in _read_ranges(file)]
    draw = random.SystemRandom()
    for number in draw.sample(choices, min(_ID_TRIES, len(choices))):
        is_subordinate = any(number in ids for ids in subordinate)
        if number not in used and not is_subordinate and not _is_id_named(number):
            return number
    raise LabError(
        "no user id is free for a server of the lab",
        id=ErrorId.UNPRIVILEGED_ACCOUNT_MISSING,
        hint="End labs that are up: `dbcheck lab down`. Labs take ids of"
        f" {' or '.join(f'{ids.start} to {ids[-1]}' for ids in _ID_RANGES)}, as far as"
        f" {_ID_MAPS[0]} has them.",
    )


def _intersect_mapped_ids(wanted: range) -> range:
    """Return the part of *wanted* that this namespace maps as user and group ids."""
    for file in _ID_MAPS:
        lines = [list(map(int, line.split())) for line in _read_lines(file)]
        parts = [
            range(max(wanted.start, first), min(wanted.stop, first + count))
            for first, _, count in lines
        ]
        wanted = max(parts, key=len, default=range(0))
    return wanted


def _list_used_ids() -> set[int]:
    """Return the user and group ids of all processes."""
    used_ids: set[int] = set()
    for process in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # the process has ended
            for ids in _ID_LINES.findall(process.read_text(errors="replace")):
                used_ids.update(map(int, ids.split()))
    return used_ids


def _read_ranges(file: str) -> list[range]:
    """Return the ranges that a file of subordinate ids hands out."""
    ranges = []
    for line in _read_lines(file):
        first, _, count = line.partition(":")[2].partition(":")
        if first.isdigit() and count.strip().isdigit():
            ranges.append(range(int(first), int(first) + int(count)))
    return ranges


def _read_lines(file: str) -> list[str]:
    """Return the lines of a file, [] if it is not there."""
    try:
        return Path(file).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _is_id_named(number: int) -> bool:
    """Return True if a user or a group of the machine has that id."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            look_up(number)
            return True
    return False


# Errors of calls on a damaged filesystem (errno(3)).
DAMAGED = (errno.EIO, errno.EUCLEAN, errno.EBADMSG)

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def give_to_account(descriptor: int, account: Account | None) -> None:
    """Make *account* the owner of an open file; do nothing if it is None."""
    if account is not None:
        os.fchown(descriptor, account.uid, account.gid)


def make_folder(
    path: Path, account: Account | None, reader: Account | None = None
) -> None:
    """Make the folder *path*, unless it is there, and give it to *account*.

    reader: an account that may list the folder and pass through.  Nobody else may write
    in the folder above.  Raise OSError if *path* is no folder, or a third account's.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    folder = os.open(path, _FOLDER_FLAGS)
    try:
        owners = {os.geteuid(), *([account.uid] if account else [])}
        if os.fstat(folder).st_uid not in owners:
            raise PermissionError(errno.EPERM, "it belongs to another account", path)
        os.fchmod(folder, 0o700)
        give_to_account(folder, account)
        make_readable(folder, reader)
    finally:
        os.close(folder)


def make_readable(descriptor: int, account: Account | None) -> None:
    """Let *account* read an open file beside its owner; do nothing if it is None.

    If the file is a folder, the account can list it and pass through.
    """
    if account is not None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        os.fchown(descriptor, -1, account.gid)
        os.fchmod(descriptor, 0o750 if is_folder else 0o640)


def make_file(path: Path, account: Account | None, text: str = "") -> None:
    """Make a new file with *text*, which only *account* can read; None: only root.

    Nobody else may write in the folder.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    # A path in a setting may have any bytes.
    content = text.encode("utf-8", "surrogateescape")
    with open(os.open(path, flags, 0o600), "wb") as stream:
        stream.write(content)
        stream.flush()
        give_to_account(stream.fileno(), account)


def plainly(path: str, flags: int) -> int:
    """Open a file as open() does, following no link, for this user alone.

    Only for a folder in which no other account can write.
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def read(path: Path, account: Account | None, most: int, start: int = 0) -> bytes:
    """Read a file from byte *start* on, at most its last *most* bytes.

    Raise OSError unless it is a regular file of *account*, or of this user if that is
    None; a link is not followed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        owner = os.geteuid() if account is None else account.uid
        if status.st_uid != owner or not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EPERM, "not a plain file of its own", path)
        file.seek(max(start, status.st_size - most))
        return file.read(most)


def read_as_text(path: Path, account: Account | None, most: int, start: int = 0) -> str:
    """Return what read() returns, as text; "" if read() raises OSError."""
    with contextlib.suppress(OSError):
        return read(path, account, most, start).decode("utf-8", "replace")
    return ""


def remove_stale(file: Path) -> None:
    """Remove a *file* that a server left when it was cut, in its account's folder.

    Do nothing if that folder is a link, as it may be in a recording.  Raise
    LabError if it cannot be removed, Unrecoverable if the filesystem is damaged.
    """
    try:
        folder = os.open(file.parent, _FOLDER_FLAGS)
        try:
            os.unlink(file.name, dir_fd=folder)
        finally:
            os.close(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        kind = Unrecoverable if error.errno in DAMAGED else LabError
        raise kind(
            f"{file} cannot be removed: {error.strerror}",
            id=ErrorId.DATA_FOLDER_NOT_USABLE,
            hint="Remove it, or end the lab and start a new one.",
        ) from error


def replace_link(link: Path, target: Path) -> None:
    """Make *link*, a link in the account's folder, one to *target*.

    The server that owns the folder does not run.  Raise LabError if that folder is a
    link, or *link* is none.
    """
    try:
        folder = os.open(link.parent, _FOLDER_FLAGS)
        try:
            os.readlink(link.name, dir_fd=folder)
            os.unlink(link.name, dir_fd=folder)
            os.symlink(target, link.name, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise LabError(
            f"{link} cannot be made a link to {target}: {error.strerror}",
            id=ErrorId.DATA_FOLDER_NOT_USABLE,
            hint="End the lab and start a new one.",
        ) from error


def empty_folder(folder: Path) -> None:
    """Remove all that is in *folder*, which no process uses; no link is followed.

    Raise LabError if something cannot be removed.
    """
    try:
        top = os.open(folder, _FOLDER_FLAGS)
        try:
            with os.scandir(top) as found:
                entries = [
                    (one.name, one.is_dir(follow_symlinks=False)) for one in found
                ]
            for name, is_folder in entries:
                if is_folder:
                    shutil.rmtree(name, dir_fd=top)
                else:
                    os.unlink(name, dir_fd=top)
        finally:
            os.close(top)
    except OSError as error:
        raise LabError(
            f"{folder} cannot be emptied: {error.strerror}",
            id=ErrorId.DATA_FOLDER_NOT_USABLE,
            hint="End the lab and start a new one.",
        ) from error


def hand_over(folder: Path, account: Account) -> None:
    """Give a tree that another lab's server made to *account*.

    Only files of that server are changed: each is changed in its open folder, no link
    is followed, and a file of another owner, as one that is hard-linked here, keeps its
    owner.  A folder is changed after its content, so *account* cannot exchange files in
    it before.  A file that cannot be changed, as on a damaged filesystem, stays as it
    is: the server will report it.  Raise Unrecoverable if *folder* itself exists and
    cannot be changed.
    """
    try:
        top = os.open(folder, _FOLDER_FLAGS)
    except OSError:
        return
    try:
        owner = os.fstat(top).st_uid
        if owner not in (0, account.uid):
            with contextlib.suppress(OSError, RecursionError):
                _change_owners_below(top, owner, account)
            give_to_account(top, account)
    except OSError as error:
        raise Unrecoverable(
            f"the files in {folder} cannot be changed: {error.strerror}",
            id=ErrorId.DATA_FOLDER_NOT_USABLE,
        ) from error
    finally:
        os.close(top)


def _change_owners_below(top: int, owner: int, account: Account) -> None:
    for _, folders, files, parent in os.fwalk(".", topdown=False, dir_fd=top):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if status.st_uid == owner:
                    uid, gid = account.uid, account.gid
                    os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)
