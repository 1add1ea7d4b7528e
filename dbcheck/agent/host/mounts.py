"""Reads the mounts, and opens folders that no other account can exchange.

mount(2) and umount(2) take paths, and follow links in them.  Who may rename a folder on
the way, as the server's account may in a folder of its own, could have root mount a
filesystem over /etc, or unmount what it likes.  So each folder on the way must be
root's, and writable by root alone; then the last one is used by its descriptor.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path

from dbcheck.agent.host.open import name_path_in_errors, open_folder
from dbcheck.agent.wire import (
    Refusal,
    describe_error,
    merge_options,
    read_lines,
    split_mount,
    unescape,
)
from dbcheck.base.system import steps

MOUNTINFO = "/proc/self/mountinfo"
# Options that mountinfo shows, and that mount(8) refuses.
REFUSED_OPTIONS = frozenset({"seclabel"})
WRITABLE_BY_OTHERS = 0o022  # also what an access control list lets others do (acl(5))
OTHERS = "others"  # the code of all refusals of this module


class Mounted:
    """One line of mountinfo (proc(5))."""

    def __init__(self, line: str) -> None:
        fields = split_mount(line)
        kind, source, options = fields[fields.index("-") + 1 :][:3]
        self.id, self.parent = map(int, fields[:2])
        self.device = fields[2]
        self.root = unescape(fields[3])
        self.point = unescape(fields[4])
        self.type = kind
        self.source = unescape(source)
        self.options = ",".join(
            option
            for option in merge_options(fields[5], options)
            if option not in REFUSED_OPTIONS
        )

    @property
    def is_read_only(self) -> bool:
        """Whether the mount or its filesystem is."""
        return "ro" in self.options.split(",")

    @property
    def is_idmapped(self) -> bool:
        """Whether it shows files under other owners (mount_setattr(2))."""
        return "idmapped" in self.options.split(",")


def read_mounts(table: str = MOUNTINFO) -> Iterator[Mounted]:
    """Yield all mounts, those that cover others last; *table*: of another process."""
    for line in read_lines(table):
        yield Mounted(line)


def parse_mount_id(fdinfo: str) -> int:
    """Return the mount that an open file is on (proc(5), fdinfo), -1 if unknown."""
    for line in read_lines(fdinfo):
        if line.startswith("mnt_id:"):
            return int(line.split()[1])
    return -1


def read_mount_id(handle: int) -> int:
    """Return the mount that a descriptor of this process is on, -1 if unknown."""
    return parse_mount_id(f"/proc/self/fdinfo/{handle}")


class _Way:
    """Looks at the folders on the way to *goal*, the outermost first.

    dead: mounts on drives without power.  Their folders were looked at before the cut.
    Now XFS returns an error for stat() of such a folder, and for a rename in it, so the
    folder cannot be exchanged (xfs_vn_getattr and xfs_rename on a filesystem that was
    shut down).
    """

    def __init__(self, goal: str, dead: Container[int]) -> None:
        self._goal, self._dead = goal, dead
        self._shared = ""  # the folder before, if others may write in it
        self._mount = -1
        self._seen: dict[int, str] = {}  # a folder on each mount

    def look(self, folder: int, path: str) -> None:
        """Raise Refusal if others can exchange the folder, or what is in it.

        In a sticky folder, such as /tmp, others cannot rename what is root's
        (unlink(2), EPERM).  A mount hides the owner of the folder that it lies on, so
        that folder may not lie in a sticky folder.
        """
        mount = read_mount_id(folder)
        if mount in self._dead:
            return
        self._seen.setdefault(mount, path)
        status = os.fstat(folder)
        if status.st_uid not in (0, os.geteuid()):
            raise self._refusal(f"{path} belongs to user {status.st_uid}")
        if self._shared and mount != self._mount:
            self.require_alone()
        shared = bool(status.st_mode & WRITABLE_BY_OTHERS)
        self._mount, self._shared = mount, path if shared else ""
        if shared and not status.st_mode & stat.S_ISVTX:
            self.require_alone()

    def require_alone(self) -> None:
        """Raise Refusal if others may put anything in the folder seen last."""
        if self._shared:
            raise self._refusal(f"{self._shared} can be written by others than root")

    def require_root_serves(self) -> None:
        """Raise Refusal if another user's program names the owners of folders."""
        for mount in read_mounts():
            if mount.id in self._seen and is_user_fuse(mount):
                place = self._seen[mount.id]
                raise self._refusal(f"{place} is served by a program of another user")

    def _refusal(self, why: str) -> Refusal:
        text = f"{why}, who could put something else in the place of {self._goal}"
        return Refusal(OTHERS, text)


def is_user_fuse(mount: Mounted) -> bool:
    """Return True for a FUSE mount of a user other than root (mount.fuse(8))."""
    return mount.type.startswith("fuse") and "user_id=0" not in mount.options.split(",")


def open_folder_above(
    path: str, dead: Container[int] = (), *, search_only: bool = True
) -> int:
    """Return a descriptor of the folder that the last name of *path* is in.

    Raise OSError, or Refusal unless the folder and all folders above it belong to root
    or to this process's user, and nobody else can change them.
    dead: ids of mounts that were looked at before their drives lost their power.
    search_only: the folder need not be readable.
    """
    way = _Way(path, dead)
    above = os.path.dirname(path)
    folder = open_folder(above, search_only=search_only, look=way.look)
    try:
        way.require_alone()
        way.require_root_serves()
    except BaseException:
        os.close(folder)
        raise
    return folder


def resolve_links(path: str) -> tuple[list[str], str]:
    """Return the links on the way to *path*, and where it leads: a path without links.

    The links include the folders that are passed only on the way to a link.  All comes
    from one walk, so a link that somebody exchanges meanwhile cannot make them
    disagree.  Raise OSError.
    """
    *before, last = steps(Path(path, "-"))  # for what a link that ends in .. leads to
    links = (str(step) for step in before if step not in last.parents)
    return list(dict.fromkeys(links)), str(last.parent)


def resolve_path(path: str) -> str:
    """Return the path without links that *path* leads to.

    Raise as open_folder_above() does if others can exchange one of the links.
    """
    links, real = resolve_links(path)
    for link in links:
        os.close(open_folder_above(link))
    return real


def make_private_folder(folder: str) -> None:
    """Make a folder where it is missing, in a folder that nobody else can change.

    A folder that is there may lie in a sticky folder: its user has to check it, and its
    owner.  Raise as open_folder_above() does.
    """
    if os.path.lexists(folder):
        return
    above = open_folder_above(folder)
    try:
        with contextlib.suppress(FileExistsError), name_path_in_errors(folder):
            os.mkdir(os.path.basename(folder), 0o700, dir_fd=above)
    finally:
        os.close(above)


def explain_exposure(point: str) -> str:
    """Explain why others could lead root away from *point*; "" if none could."""
    try:
        os.close(open_folder_above(point))
    except Refusal as refusal:
        return str(refusal)
    except OSError as error:
        return describe_error(error, point)
    return ""
