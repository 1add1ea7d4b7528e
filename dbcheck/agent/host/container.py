"""Finds a server in a container, and this host's own paths of its files.

A container has mounts of its own (mount_namespaces(7)), and may have a root of its own
(pivot_root(2)); so may a service.  A path that its server names may lead to nothing on
this host, or to another file.  A container is recognised by that alone, whatever made
it.  /proc/PID/root shows the files as the process finds them, mounts included, but only
to root and to the process's own account (proc(5)).  The kernel would follow an absolute
link below it from this process's own root, so each link is followed here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from dbcheck.agent.host.mounts import Mounted, read_mount_id, read_mounts
from dbcheck.agent.host.servers import (
    PROCESSES,
    SERVER,
    find_server_folder,
    is_writable,
    list_processes,
    pid_of,
    read_parent,
    read_program_path,
)
from dbcheck.agent.wire import Refusal, read_first_line, read_lines

OWN_PROCESS = "/proc/self"
LINKS_DEEP_MAX = 40  # most links that the kernel follows in a path (path_resolution(7))
CGROUP = re.compile(r"(?:0:|[0-9]+:name=systemd):(/.+)")  # cgroups(7)


class View:
    """The files as one process finds them: this one, or one of a server.

    folder: the folder of the process in /proc.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def of(cls, process: int) -> View:
        """Return the view of the process with this id; 0: of this process."""
        return cls(os.path.join(PROCESSES, str(process))) if process else OWN

    def find(self, path: str) -> str:
        """Return this host's path, without links, of what the process has at *path*.

        Raise OSError if nothing is there, or if this host has no path to it (EXDEV).
        """
        if self.folder == OWN_PROCESS:
            return os.path.realpath(path)
        with self._open(path) as (handle, inner):
            return self._list_on_host(handle, inner)[0]

    def find_containing_folder(self, path: str) -> str:
        """Return this host's path of the folder at *path*, or of a file's folder there.

        A file may be mounted alone.  If another mount of its filesystem shows its
        folder, that is returned, else the path of the file itself.
        Raise OSError, also if a link is broken or leads to neither a file nor a folder.
        """
        with self._open(path) as (handle, inner):
            status = os.fstat(handle)
            if stat.S_ISDIR(status.st_mode):
                return self.find(path)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "neither a file nor a folder", inner)
            shown = self._list_on_host(handle, inner)
        for file in shown:
            folder = os.path.dirname(file)
            if os.stat(folder).st_dev == status.st_dev:
                return folder
        return shown[0]

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[tuple[int, str]]:
        with open_below_root(self.folder + "/root", path) as (handle, inner):
            if handle is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            yield handle, inner

    def resolve(self, path: str) -> str:
        """Return the process's own path without links; raise OSError."""
        with open_below_root(self.folder + "/root", path) as (_, inner):
            return inner

    def identify(self, path: str) -> tuple[int, int] | None:
        """Return device and inode of what is at *path*, None if nothing.

        Raise OSError if it cannot be seen.
        """
        with open_below_root(self.folder + "/root", path) as (handle, _):
            return None if handle is None else read_identity_of(os.fstat(handle))

    def read_mounts(self) -> Iterator[Mounted]:
        """Yield the mounts that the process has, those that cover others last."""
        return read_mounts(self.folder + "/mountinfo")

    def _list_on_host(self, handle: int, path: str) -> list[str]:
        """List this host's paths of an open file that the process has at *path*.

        A mount of this host shows the file if it shows the same filesystem from a
        folder above the file.  Another mount may cover that, so device and inode are
        compared.  Paths on writable mounts come first.  Raise OSError if there is none.
        """
        wanted = read_identity_of(os.fstat(handle))
        number = read_mount_id(handle)
        for mount in self.read_mounts():
            if mount.id == number:
                break
        else:
            # What is mounted outside of a root of chroot(2) is not shown to a process.
            there = os.readlink(f"/proc/self/fd/{handle}")
            if read_identity_of(os.lstat(there)) != wanted:
                raise OSError(0, "its mount is not shown in /proc", path)
            return [there]
        file = join_below(mount.root, path, mount.point)
        shown: list[tuple[bool, int, str]] = []
        for own in read_mounts():
            if own.device != mount.device or not is_below(file, own.root):
                continue
            there = join_below(own.point, file, own.root)
            with contextlib.suppress(OSError):
                if read_identity_of(os.lstat(there)) == wanted:
                    shown.append((own.is_read_only, len(shown), there))
        if not shown:
            raise OSError(errno.EXDEV, describe_private_mount(mount), path)
        return [there for _, _, there in sorted(shown)]


OWN = View(OWN_PROCESS)


def describe_private_mount(mount: Mounted) -> str:
    """Describe a mount that no mount of this host shows."""
    return (
        f"it is on {mount.type} ({mount.source}), which is mounted at {mount.point} in"
        " the server's container, but nowhere on this host"
    )


def is_below(path: str, folder: str) -> bool:
    """Return True if an absolute path without links is *folder*, or below it."""
    return folder == "/" or path == folder or path.startswith(folder + "/")


def join_below(top: str, path: str, folder: str) -> str:
    """Return the place below *top* that *path* has below *folder*."""
    return os.path.normpath(os.path.join(top, os.path.relpath(path, folder)))


def read_identity_of(status: os.stat_result) -> tuple[int, int]:
    """Return device and inode, which two paths to one file have in common."""
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def open_below_root(root: str, path: str) -> Iterator[tuple[int | None, str]]:
    """Give a descriptor of what is at *path* below *root*, and its path without links.

    The descriptor is None if nothing is there.  Each part is opened in the folder
    before it, so none can be exchanged for a link meanwhile.  Raise OSError.
    """
    with contextlib.ExitStack() as opened:
        top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, top)
        way: list[tuple[str, int | None]] = [("", top)]
        parts, followed = path.split("/")[::-1], 0
        while parts:
            part = parts.pop()
            if part == ".." and len(way) > 1:
                way.pop()
            if part in ("", ".", ".."):
                continue
            handle = open_part(part, way[-1][1], path)
            if handle is not None:
                opened.callback(os.close, handle)
            if handle is None or not stat.S_ISLNK(os.fstat(handle).st_mode):
                way.append((part, handle))
                continue
            followed += 1
            if followed > LINKS_DEEP_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            link = os.readlink("", dir_fd=handle)
            if link.startswith("/"):
                del way[1:]
            parts += link.split("/")[::-1]
        yield way[-1][1], "/".join(name for name, _ in way) or "/"


def open_part(name: str, folder: int | None, path: str) -> int | None:
    """Return a descriptor of *name* in a folder, None if it is not there.

    It may be that of a link.  path: for errors.
    """
    if folder is None:
        return None
    try:
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise OSError(error.errno, error.strerror, path) from None


def identify_view(process: str) -> tuple[str, int, int]:
    """Identify a process's view of the files: root and mounts; raise OSError."""
    root = os.stat(os.path.join(process, "root", ""))
    return os.readlink(process + "/ns/mnt"), root.st_dev, root.st_ino


def read_view_links(process: str) -> tuple[str, str]:
    """Return the mount namespace of a process, and what its root is called here.

    Unlike identify_view() this asks no filesystem: only a server's may be asked, as any
    other may be on dead NFS.  Raise OSError.
    """
    return os.readlink(process + "/ns/mnt"), os.readlink(process + "/root")


def find_contained_servers(path: str) -> tuple[list[int], str]:
    """Find the servers in containers that have their data directory at *path* there.

    Return the id of the first process of each, and a sentence on servers that this
    account may not look at, "" if there are none.  Raise OSError if this host's own
    *path* cannot be seen.
    A server that has this host's root and this host's folder at *path* is in none, as a
    service whose other mounts are its own.
    """
    own, found, hidden = read_view_links(OWN_PROCESS), [], []
    here, top = OWN.identify(path), read_identity_of(os.stat("/"))
    seen: set[tuple[int, int] | None] = {None}
    for folder in list_processes():
        try:
            if read_view_links(folder) == own:
                continue
            status = find_server_folder(folder, os.readlink(folder + "/cwd"))
            identity = read_identity_of(status) if status else None
            if identity in seen or View(folder).identify(path) != identity:
                continue
            if is_started_by_server(folder):
                continue
            root = read_identity_of(os.stat(os.path.join(folder, "root", "")))
            if (identity, root) == (here, top):
                continue
        except PermissionError:
            if SERVER.fullmatch(read_first_line(folder + "/comm")):
                hidden.append(str(pid_of(folder)))
            continue
        except OSError:  # it ended
            continue
        seen.add(identity)
        found.append(pid_of(folder))
    if not hidden:
        return found, ""
    # Each session of a server is one of them.
    more = f" and {len(hidden) - 1} more" if len(hidden) > 1 else ""
    process = f"process {hidden[0]}{more}, of a database server"
    return found, f"only root sees the files of {process}"


def shares_folder(process: int, path: str) -> bool:
    """Return True if a process has this host's own folder at *path*."""
    with contextlib.suppress(OSError):  # it ended
        return View.of(process).identify(path) == OWN.identify(path)
    return False


def is_started_by_server(process: str) -> bool:
    """Return True if the parent of a process runs the same program in the same folder.

    Such a process, as that of a session, may end before its server does.
    """
    parent = os.path.join(PROCESSES, read_parent(process))
    with contextlib.suppress(OSError):
        return read_program_path(parent) == read_program_path(
            process
        ) and os.path.samestat(os.stat(parent + "/cwd"), os.stat(process + "/cwd"))
    return False


def read_hostname(process: int) -> str:
    """Return the hostname of a process, 0: of this one; "" if it is not known.

    Container engines put that of a container into the environment of its processes.
    """
    folder = f"{PROCESSES}/{process}" if process else OWN_PROCESS
    with contextlib.suppress(OSError):
        if os.readlink(folder + "/ns/uts") == os.readlink(OWN_PROCESS + "/ns/uts"):
            return os.uname().nodename
        for variable in "".join(read_lines(folder + "/environ")).split("\0"):
            if variable.startswith("HOSTNAME="):
                return variable.partition("=")[2]
    return ""


def describe_container(process: int) -> dict[str, Any] | None:
    """Describe the container of a process; see model.host.Container.

    None without a process.
    """
    return {"process": process, "cgroup": read_cgroup(process)} if process else None


# What a container engine puts into the path of a container's log: the id of the
# container, or on Kubernetes that of its pod.  In the name of a slice of systemd the
# pod's id has "_" for "-".
CONTAINER_ID = re.compile(
    r"[0-9a-f]{64}|(?<=pod)[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
)
# A file of kubelet for each start of a container, below the folder of its pod, whose
# name ends with an id.
POD_LOG = re.compile(r"(/.+_[0-9a-f-]{32,36}/[^/]+)/[0-9]+\.log[^/]*")
# With cri-dockerd each is a link to Docker's own file (cri-dockerd, core/logs.go,
# createContainerLogSymlink).
DOCKER_LOG = re.compile(r"/.+/([0-9a-f]{64})/\1-json\.log")
# kubelet has a link to each such file there, by the id of the container.
POD_LOG_LINKS = "/var/log/containers"


def find_container_log(process: str) -> str:
    """Return the file that a container engine writes a container's output to.

    process: the folder in /proc of a process of the container.
    Return "" if the process is in no container, or no process writes such a file; the
    file's folder if the engine begins a file at each start.  Raise Refusal if there are
    several.
    Anybody sees the id, so a file counts only if its writer has an account that
    list_log_accounts() names.
    """
    ids = list_container_ids(process)
    if not ids:
        return ""
    if linked := find_linked_log(ids):
        return find_log_folder(linked)
    accounts = list_log_accounts(process)
    found = set()
    for writer in list_processes():
        if read_account(writer) not in accounts:
            continue
        for path in list_written_logs(writer):
            if any(each in path for each in ids):
                found.add(find_log_folder(path))
    if len(found) > 1:
        several = ", ".join(sorted(found))
        raise Refusal("log", f"the server's log may be any of {several}")
    return found.pop() if found else ""


def list_container_ids(process: str) -> list[str]:
    """List the ids of containers and pods in the control groups of a process."""
    groups = "".join(read_lines(process + "/cgroup"))
    return [found.replace("_", "-") for found in CONTAINER_ID.findall(groups)]


def list_log_accounts(process: str) -> set[str]:
    """Return the accounts that keep a container's log: root's, and those of the engine.

    An engine without root has that of the container, or of what started it.
    """
    return {"0", *map(read_account, [process, *list_ancestors(process)])} - {""}


def list_ancestors(process: str) -> Iterator[str]:
    """Yield the folders in /proc of what started a process, its parent first."""
    while (parent := read_parent(process)) not in ("", "0"):
        process = os.path.join(PROCESSES, parent)
        yield process


def read_account(process: str) -> str:
    """Return the number of a process's account (proc(5), status), "" if it ended.

    The folder in /proc shows root's for a process that hides its memory.
    """
    for line in read_lines(process + "/status"):
        if line.startswith("Uid:"):
            return line.split()[2]
    return ""


def find_linked_log(ids: Sequence[str]) -> str:
    """Return the log that a link of kubelet names for one of the containers, or "".

    Their paths have the id of the pod alone, which its other containers have, too.
    The log may be a link itself, see read_docker_link().
    """
    with contextlib.suppress(OSError):  # no kubelet is here, or only root may list it
        for name in os.listdir(POD_LOG_LINKS):
            link = os.path.join(POD_LOG_LINKS, name)
            if name.endswith(tuple(f"-{each}.log" for each in ids)):
                if not os.path.exists(link):
                    return ""
                target = os.path.join(POD_LOG_LINKS, os.readlink(link))
                folder, file = os.path.split(target)
                return os.path.join(os.path.realpath(folder), file)
    return ""


def find_log_folder(path: str) -> str:
    """Return the folder of a log that is one of several, by starts, else the log."""
    found = POD_LOG.fullmatch(path)
    return found[1] if found else path


def read_docker_link(path: str) -> str:
    """Return the file of Docker that a log of a pod leads to, "" if it is none.

    No other link counts: the server's account may have made that.
    """
    with contextlib.suppress(OSError):  # not a link
        target = os.readlink(path)
        return target if POD_LOG.match(path) and DOCKER_LOG.fullmatch(target) else ""
    return ""


def list_written_logs(process: str) -> Iterator[str]:
    """Yield the paths of files *.log that a process has open to write."""
    with contextlib.suppress(OSError):  # it ended, or is another account's
        for number in os.listdir(process + "/fd"):
            path = os.readlink(f"{process}/fd/{number}")
            if path.endswith(".log") and is_writable(f"{process}/fdinfo/{number}"):
                yield path


def read_cgroup(process: int) -> str:
    """Return the control group of a process, "" if there is none."""
    for line in read_lines(f"{PROCESSES}/{process}/cgroup"):
        if match := CGROUP.fullmatch(line.rstrip("\n")):
            return match.group(1)
    return ""
