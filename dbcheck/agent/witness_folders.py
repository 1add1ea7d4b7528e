"""The folders and files of a witness, in which no other user may have a hand."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from typing import Any

from dbcheck.agent.wire import Refusal, require_absolute
from dbcheck.base.owners import exchangeable, expanded, others_write, own_users

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def resolve_folder(request: Any) -> str:
    """Return the folder that a request names, with the user's own link followed."""
    folder = _parse_folder(request)
    if os.path.islink(folder) and os.lstat(folder).st_uid in own_users():
        folder = os.path.realpath(folder)
    return folder


def _parse_folder(request: Any) -> str:
    """Return the folder that a request names.

    /~/NAME is NAME in the user's home, and /~USER/NAME in that of another.
    """
    folder = request["folder"]
    if not isinstance(folder, str):
        raise TypeError("the name of a folder is not valid text")
    if folder.startswith("/~"):
        try:
            folder = expanded(folder[1:])
        except LookupError as error:
            raise Refusal("no-user", str(error.args[0])) from None
    return folder


def resolve_own_folder(request: Any) -> str:
    """Return the folder that a request names, as resolve_folder() does, to write in it.

    Refuse root a folder that others can exchange: root would make and remove files
    wherever they had it lead.
    """
    require_not_exchangeable(_parse_folder(request))
    return resolve_folder(request)


def require_not_exchangeable(folder: str) -> None:
    """Refuse root a folder, there or not, that others can exchange."""
    if os.geteuid() == 0 and (why := exchangeable(folder)):
        raise Refusal("not-own", f"others could exchange {folder}: {why}")


def find_present(folder: str) -> str:
    """Return *folder* if it is there, else the nearest folder above it that is."""
    require_absolute(folder)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def require_makeable(folder: str, present: str) -> None:
    """Raise OSError, naming *folder*, if it cannot be made; leave nothing behind.

    present: the nearest folder above it.
    """
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".scratch-", dir=present))
    except OSError as error:
        raise OSError(error.errno, error.strerror, folder) from None


def require_own(folder: str) -> None:
    """Refuse a folder in which another user may have put files, or may do so.

    In a folder such as /var/tmp any user may have made it, or one above it, before us.
    """
    require_not_exchangeable(folder)
    if os.path.islink(folder):
        raise Refusal("not-own", f"{folder} is a link")
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        shared = others_write(status, fd)
    finally:
        os.close(fd)
    if status.st_uid not in own_users():
        raise Refusal(
            "not-own", f"{folder} belongs to user {status.st_uid}, not to this one"
        )
    if shared:
        mode = stat.S_IMODE(status.st_mode)
        raise Refusal("not-own", f"{folder} has mode {mode:o}: others may write")


def open_file(folder: str, name: str) -> int:
    """Return a descriptor of a file in *folder* to read it; follow no link.

    Raise FileNotFoundError or NotADirectoryError if folder or file is not there.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=place)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # the latter on FreeBSD
            raise Refusal("not-own", f"{folder}/{name} is a link") from None
        error.filename = os.path.join(folder, name)
        raise
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Refusal("not-own", f"{folder}/{name} is not a file")
    return fd


def run_folder(folder: str, run_id: str) -> str:
    """Return the folder of a run; refuse an id that could lead elsewhere."""
    if not RUN_ID.fullmatch(run_id):
        raise Refusal("run-id", f"not a run id: {run_id!r}")
    return os.path.join(folder, run_id)


def list_folder(path: str) -> list[str]:
    """Return the names in *path*; none if it does not exist."""
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []
