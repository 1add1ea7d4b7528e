"""Files and folders that root makes for a server's account, or reads of it.

What the account may write in, it may at any moment exchange for a link, a pipe or
somebody else's file.  So root makes files in its own folders alone, gives away what it
holds open, and looks at what it has opened before it reads it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable
from dbcheck.lab.account import Account

# What a damaged filesystem answers (errno(3)).
DAMAGED = (errno.EIO, errno.EUCLEAN, errno.EBADMSG)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def give(descriptor: int, account: Account | None) -> None:
    """Give what is open to *account*; nothing happens if that is None."""
    if account is not None:
        os.fchown(descriptor, account.uid, account.gid)


def make_folder(
    path: Path, account: Account | None, reader: Account | None = None
) -> None:
    """Make the folder *path*, unless it is there, and give it to *account*.

    reader: may list it and pass through.  Nobody else may write in the folder above.
    Raise OSError if something else is there, or a folder of a third account.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    folder = os.open(path, _FOLDER)
    try:
        owners = {os.geteuid(), *([account.uid] if account else [])}
        if os.fstat(folder).st_uid not in owners:
            raise PermissionError(errno.EPERM, "it belongs to another account", path)
        os.fchmod(folder, 0o700)
        give(folder, account)
        show(folder, reader)
    finally:
        os.close(folder)


def show(descriptor: int, account: Account | None) -> None:
    """Let *account* read what is open, beside its owner; nothing happens without one.

    A folder it can list and pass through.
    """
    if account is not None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        os.fchown(descriptor, -1, account.gid)
        os.fchmod(descriptor, 0o750 if is_folder else 0o640)


def make_file(path: Path, account: Account | None, text: str = "") -> None:
    """Make a file anew that only *account* can read, root without one, and fill it.

    Nobody else may write in the folder.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    content = text.encode("utf-8", "surrogateescape")  # of a path, in a setting
    with open(os.open(path, flags, 0o600), "wb") as stream:
        stream.write(content)
        stream.flush()
        give(stream.fileno(), account)


def plainly(path: str, flags: int) -> int:
    """Open a file as open() does, following no link, for this user alone.

    Only for a folder in which no other account can write.
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def read(path: Path, account: Account | None, most: int, start: int = 0) -> bytes:
    """Return what a file holds from byte *start* on, at most its last *most* bytes.

    It is a regular file of the account's, of this user's without one.  Raise OSError
    if it is not, or a link.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        owner = os.geteuid() if account is None else account.uid
        if status.st_uid != owner or not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EPERM, "not a plain file of its own", path)
        file.seek(max(start, status.st_size - most))
        return file.read(most)


def text(path: Path, account: Account | None, most: int, start: int = 0) -> str:
    """Return the same as text; "" where read() raises OSError."""
    with contextlib.suppress(OSError):
        return read(path, account, most, start).decode("utf-8", "replace")
    return ""


def remove_stale(file: Path) -> None:
    """Remove what a server that was cut off left in a folder of its account's.

    Nothing happens if that folder is a link, as it may be in a recording.  Raise
    LabError if it cannot be removed, Unrecoverable if the filesystem is damaged.
    """
    try:
        folder = os.open(file.parent, _FOLDER)
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


def hand_over(folder: Path, account: Account) -> None:
    """Give a tree that another lab's server made to *account*.

    Of that server's files no more than those: each is changed in its folder, which is
    open, no link is followed, and what has another owner keeps it, as what is there by
    a hard link.  The folders above what is changed are the other server's until they
    are done, so nobody can exchange what lies in them.  What cannot be changed, as on a
    damaged filesystem, stays as it is: that is the server's to show.  Raise
    Unrecoverable if *folder* itself is there and cannot be changed.
    """
    try:
        top = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        owner = os.fstat(top).st_uid
        if owner not in (0, account.uid):
            with contextlib.suppress(OSError, RecursionError):
                _change_below(top, owner, account)
            give(top, account)
    except OSError as error:
        raise Unrecoverable(
            f"the files in {folder} cannot be changed: {error.strerror}",
            id=ErrorId.DATA_FOLDER_NOT_USABLE,
        ) from error
    finally:
        os.close(top)


def _change_below(top: int, owner: int, account: Account) -> None:
    for _, folders, files, held in os.fwalk(".", topdown=False, dir_fd=top):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                found = os.stat(name, dir_fd=held, follow_symlinks=False)
                if found.st_uid == owner:
                    uid, gid = account.uid, account.gid
                    os.chown(name, uid, gid, dir_fd=held, follow_symlinks=False)
