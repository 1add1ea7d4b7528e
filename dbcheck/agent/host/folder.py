"""The folder that canaries write in, held by its descriptor.

Whoever may write in its parent, mostly the server's account, can rename the folder at
any moment and put another one, or a link, in its place.  So its path is resolved once;
the folder, its parent and its files are used by their descriptors alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re

from dbcheck.agent.host.open import (
    list_names,
    name_path_in_errors,
    open_folder,
    open_folder_in,
    open_regular,
)
from dbcheck.agent.wire import Refusal, describe_error

BESIDE = ".dbcheck-canary"
INSIDE = "#sql-dbcheck-canary"  # MariaDB and MySQL list no folder "#sql..." as a schema
MARKER = "dbcheck-canary"
CANARY_FILE = re.compile(r"dbcheck-canary|run\.json|direct-\d+|buffered-\d{6}")
ENTRIES_MAX = 10_000  # most entries of the folder that are listed
WRITABLE_BY_OTHERS = 0o022  # also what an access control list lets others do (acl(5))


def list_canary_places(data: str) -> list[str]:
    """List the places for canaries: beside the data directory, or inside it."""
    return [os.path.join(os.path.dirname(data), BESIDE), os.path.join(data, INSIDE)]


def choose_folder(data_directory: str, wanted: str) -> tuple[str, int]:
    """Return the folder for the canaries, and the device (st_dev) that it must be on.

    *wanted*, if it is not "", else the first of list_canary_places() that this user may
    write.  Links are followed here, once and for all.  Refuse a folder on another
    filesystem.
    """
    data = os.path.realpath(data_directory)
    device = os.stat(data).st_dev
    if os.path.isfile(data):
        raise Refusal(
            "folder",
            f"{data} is a single file that is mounted; no folder to write in was found"
            " on its filesystem",
        )
    choices = list_canary_places(data)
    if wanted:
        above, name = os.path.split(wanted)
        choices = [os.path.join(os.path.realpath(above), name)]
    problem = ""
    for folder in choices:
        parent = os.path.dirname(folder)
        if os.stat(parent).st_dev != device:
            problem = f"{parent} is on another filesystem than {data}"
        elif not os.access(parent, os.W_OK | os.X_OK):
            problem = f"this user cannot write to {parent}"
        else:
            return folder, device
    raise Refusal("folder", f"no folder for canaries: {problem}")


class Folder:
    """An open folder; its path only names it, as the path may lead elsewhere by now.

    fd: its descriptor.  lock: the descriptor of its marker once take() has locked the
    folder, -1 before.
    """

    def __init__(self, path: str, *, new_on: int | None = None) -> None:
        """Open the folder *path*, or make it, on the device *new_on*.

        Raise OSError, or Refusal if a part of the path is a link, or if what was made
        is not what is there now.
        """
        self.path = path
        self.lock = -1
        self._name = os.path.basename(path)
        with contextlib.ExitStack() as descriptors:
            self._parent = open_folder(os.path.dirname(path))
            descriptors.callback(os.close, self._parent)
            if new_on is not None:
                self._make(new_on)
            self.fd = open_folder_in(self._parent, self._name, path)
            descriptors.callback(os.close, self.fd)
            if new_on is not None:
                self._require_private(new_on)
            self._held = descriptors.pop_all()

    def _make(self, device: int) -> None:
        if os.fstat(self._parent).st_dev != device:
            raise Refusal(
                "folder", f"{self.path}: another filesystem is mounted there now"
            )
        try:
            with name_path_in_errors(self.path):
                os.mkdir(self._name, 0o700, dir_fd=self._parent)
        except OSError as error:
            if error.errno != errno.EOVERFLOW:
                raise
            text = (
                f"{self.path}: user {os.geteuid()} cannot own a file there: the mount"
                " is idmapped, or the filesystem is one of a user namespace"
            )
            raise Refusal("folder", text) from None

    def _require_private(self, device: int) -> None:
        """Refuse a folder in which others can put anything, or change what we do."""
        status = os.fstat(self.fd)
        if (
            status.st_uid != os.geteuid()
            or status.st_mode & WRITABLE_BY_OTHERS
            or status.st_dev != device
        ):
            with contextlib.suppress(OSError, Refusal):
                self._remove_name()
            raise Refusal(
                "owner",
                f"{self.path} was made for this user alone, and belongs to user "
                f"{status.st_uid} with mode {status.st_mode & 0o7777:o}",
            )

    def close(self) -> None:
        """Close all descriptors, and with them the lock."""
        self._held.close()

    def names(self) -> list[str]:
        """Return the names in the folder; raise OSError if there are far too many."""
        return list_names(self.fd, self.path, ENTRIES_MAX)

    def take(self, *, new: bool = False) -> None:
        """Lock the folder; refuse one that is not dbcheck's, or that canaries write in.

        new: we made the folder just now, and it must be empty.  An empty folder of our
        own name is ours too: a run made it, and was cut off before it was marked.
        """
        names = self.names()
        strangers = [name for name in names if new or not CANARY_FILE.fullmatch(name)]
        if strangers:
            text = f"{self.path} holds files that dbcheck did not write: {strangers[0]}"
            raise Refusal("strangers", text)
        if new or (not names and self._name in (BESIDE, INSIDE)):
            self.lock = self.create(MARKER)
        elif MARKER in names:
            self.lock = self.open(MARKER)
        else:
            raise Refusal("strangers", f"{self.path} is not marked as dbcheck's")
        self._held.callback(os.close, self.lock)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refusal("in-use", f"canaries are writing in {self.path}") from None

    def create(self, name: str, flags: int = 0) -> int:
        """Return a descriptor of a new file, to be written."""
        flags |= os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with name_path_in_errors(os.path.join(self.path, name)):
            return os.open(name, flags, 0o600, dir_fd=self.fd)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Return a descriptor of a file that lies here, and under no other name.

        Raise OSError, or Refusal if canaries cannot have made the file.
        """
        path = os.path.join(self.path, name)
        with name_path_in_errors(path):
            fd = open_regular(name, flags, folder=self.fd)
        status, own = os.fstat(fd), os.fstat(self.fd)
        # The device is not compared: overlayfs has another for files than for folders.
        if (status.st_uid, status.st_nlink) != (own.st_uid, 1):
            os.close(fd)
            raise Refusal("strangers", f"{path} was not made by canaries")
        return fd

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    def sync(self) -> None:
        """Make the names in the folder, and the folder's own name, durable."""
        os.fsync(self.fd)
        os.fsync(self._parent)

    def remove(self) -> None:
        """Delete the folder with all that canaries left; take() must have locked it."""
        with name_path_in_errors(self.path):
            for name in sorted(self.names(), key=lambda name: name == MARKER):
                if CANARY_FILE.fullmatch(name):
                    self.delete(name)
            self._remove_name()
            os.fsync(self._parent)

    def _remove_name(self) -> None:
        """Delete the folder, which must be empty, unless its name leads elsewhere."""
        named = os.stat(self._name, dir_fd=self._parent, follow_symlinks=False)
        if not os.path.samestat(named, os.fstat(self.fd)):
            raise Refusal("strangers", f"{self.path} was renamed or replaced just now")
        os.rmdir(self._name, dir_fd=self._parent)


def remove(path: str) -> bool:
    """Delete the folder, if it is there and ours; return whether it was there."""
    if not os.path.lexists(path):
        return False
    try:
        folder = Folder(path)
    except FileNotFoundError:
        return False
    try:
        folder.take()
        folder.remove()
    finally:
        folder.close()
    return True


def clear_canaries(data_directory: str) -> dict[str, object]:
    """Delete the canaries of earlier runs beside and inside a data directory.

    Return the folders that are removed, and those that are kept, with the reasons.
    """
    removed: list[str] = []
    kept: dict[str, str] = {}
    for path in list_canary_places(os.path.realpath(data_directory)):
        try:
            if remove(path):
                removed.append(path)
        except Refusal as refusal:
            kept[path] = str(refusal)
        except OSError as error:
            kept[path] = describe_error(error, path)
    return {"removed": removed, "kept": kept}
