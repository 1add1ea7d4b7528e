"""Finds the filesystems and block devices below a server's directories.

A fact that cannot be read is "" or None, and `unreadable` has the reason; only an
absent data directory raises an error.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from dbcheck.agent.host.container import View, describe_container
from dbcheck.agent.host.data import OutlyingFiles
from dbcheck.agent.host.devices import (
    JOURNAL,
    describe_drive,
    find_block_folder,
    find_device_folders,
    find_separate_devices,
    name_disk_provider,
)
from dbcheck.agent.host.open import pin_block_device
from dbcheck.agent.host.process import describe_server_process
from dbcheck.agent.host.servers import find_server_processes, pid_of
from dbcheck.agent.host.tools import BLOCK, read_output
from dbcheck.agent.host.view import compare_with_server_view
from dbcheck.agent.wire import (
    clock_us,
    describe_error,
    find_mount,
    list_mounts,
    read_boot_time_us,
    read_first_line,
    read_host_names,
)

LAYERS_MAX = 64
BY_UUID = "/dev/disk/by-uuid"
# Files of an array in /sys (Documentation/admin-guide/md.rst), by model.host.Layer.md
MD_FILES = {
    "level": "level",
    "degraded": "degraded",
    "policy": "consistency_policy",
    "backlog": "bitmap/backlog",
}
NOT_THERE_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# Files that a server writes in place and never replaces.
LASTING_FILES = ("", "global/pg_control", "ibdata1")
# Files that no server writes once its data is made: of PostgreSQL, MySQL, MariaDB.
UNTOUCHED_FILES = ("PG_VERSION", "base/1/PG_VERSION", "auto.cnf", "mysql/db.opt")


class Volume:
    """The filesystem that a directory lies on, and the block devices below it.

    places: name -> path, with links followed, of the directories on it.
    device: st_dev of the filesystem.
    """

    def __init__(self, path: str) -> None:
        """Look at the directory *path*, which must be there."""
        self.path = os.path.realpath(path)
        self.device = os.stat(self.path).st_dev
        self.mount = find_mount(self.path)
        self.places: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}

    def all(self) -> dict[str, Any]:
        """Return all facts of the volume as plain values."""
        layers = self.layers()
        facts = {
            "places": self.places,
            "device": self.number,
            "mount_point": self.mount["point"],
            "filesystem": self.mount["type"],
            "mount_options": self.mount["options"],
            "source": self.mount["source"],
            "filesystem_uuid": self.uuid(),
            "free_bytes": self.free_bytes(),
            "layers": layers,
            "apart": {
                role: os.path.basename(folder) for role, folder in self.apart().items()
            },
            "drives": [
                describe_drive(layer, self.unreadable)
                for layer in layers
                if not layer["below"]
            ],
        }
        if not facts["filesystem"]:
            self.unreadable["filesystem"] = "not reported by the host"
        return {**facts, "unreadable": self.unreadable}

    @property
    def number(self) -> str:
        """The device number of the filesystem, as /proc/self/mountinfo has it."""
        return f"{os.major(self.device)}:{os.minor(self.device)}"

    def free_bytes(self) -> int:
        """Return the free space for an ordinary user, in bytes."""
        space = os.statvfs(self.path)
        return space.f_bavail * space.f_frsize

    def uuid(self) -> str:
        """Return the filesystem's UUID: the device's own, else udev's.

        A link of udev may be stale, as links of loop devices are, so the device counts
        more; only root can read it (blkid(8), -p).  The user of a FUSE filesystem
        chooses its source, which may be a link in /dev/shm, so the device is held open.
        """
        key, source = "filesystem_uuid", self.mount["source"]
        if not source.startswith("/dev/"):
            self.unreadable[key] = f"{source} is not a block device"
            return ""
        text = ""
        # Such a source is /dev/root, or the list of devices of bcachefs.
        if not os.path.exists(source):
            first = next(iter(self.sources()), "")
            source = "/dev/" + os.path.basename(first) if first else source
        with pin_block_device(source) as device:
            if device:
                command = ("blkid", "-p", "-s", "UUID", "-o", "value", device)
                text = self.run_program(key, *command)
                if key in self.unreadable:
                    why = self.unreadable[key].replace(device, source)
                    self.unreadable[key] = why
        found = text.strip() or find_linked_uuid(source)
        if found:
            self.unreadable.pop(key, None)
        else:
            self.unreadable.setdefault(key, f"blkid reports none for {source}")
        return found

    def layers(self) -> list[dict[str, Any]]:
        """Return the block devices under the filesystem, the topmost first.

        below: the names of the devices that a device is made of: dm and md list them in
        slaves/, a partition's folder is in its disk's (sysfs-block).  Btrfs, and a
        filesystem with a separate journal, are on several devices, none below another.
        """
        found: list[dict[str, Any]] = []
        queue = [*self.sources(), *self.apart().values()]
        for folder in queue:  # grows while it is walked
            name = os.path.basename(folder)
            if any(layer["name"] == name for layer in found):
                continue
            below = []
            if os.path.exists(os.path.join(folder, "partition")):
                below = [os.path.dirname(folder)]
            else:
                slaves = os.path.join(folder, "slaves")
                if os.path.isdir(slaves):
                    paths = (
                        os.path.join(slaves, slave) for slave in os.listdir(slaves)
                    )
                    below = sorted(map(os.path.realpath, paths))
            found.append(
                describe_layer(folder, name, [os.path.basename(b) for b in below])
            )
            queue += below
            if len(found) > LAYERS_MAX:
                self.unreadable["layers"] = f"more than {LAYERS_MAX} block devices"
                break
        return found

    def sources(self) -> list[str]:
        """Return the sysfs folders of the filesystem's devices, [] if unknown."""
        found, why = find_device_folders(self.mount, self.number, self.path)
        if why:
            self.unreadable["layers"] = why
        return found

    def apart(self) -> dict[str, str]:
        """Return the sysfs folders of the separate devices, as a journal's, by role."""
        first = next(iter(self.sources()), "")
        devices, why = find_separate_devices(self.mount, os.path.basename(first))
        folders = {role: find_block_folder(device) for role, device in devices.items()}
        for role, folder in folders.items():
            if not folder:
                why = f"{role}: no block device {devices[role]}"
        if why:
            self.unreadable[JOURNAL] = why
        return {role: folder for role, folder in folders.items() if folder}

    def run_program(self, fact: str, name: str, *arguments: str) -> str:
        """Return the output of a program, "" with a reason if it does not run."""
        text, why = read_output(name, *arguments)
        if why:
            self.unreadable[fact] = why
            return ""
        return text


def collect_facts(
    places: list[tuple[str, str, list[str]]], process: int = 0
) -> dict[str, Any]:
    """Return the facts of the host and of the volumes of *places*.

    places: of each its name, its path, and the names of the files in it that count, as
    shell patterns; the data directory comes first, and must exist.  Places on one
    filesystem share a volume.  Return as unseen why a place cannot be looked at.
    process: whose view of the paths counts, see container.View.of().  Raise OSError if
    it is not a server's that works in the data directory.
    """
    view = View.of(process)
    volumes = [Volume(view.find(places[0][1]))]
    if process:
        require_server(process, volumes[0].path)
    unseen: dict[str, str] = {}
    for name, path, files in places:
        if not os.path.isabs(path):
            unseen[name] = "the server does not report its path"
            continue
        try:
            assign_place(volumes, name, view.find(path))
        except OSError as error:
            unseen[name] = describe_error(error, path)
            continue
        assign_outlying_files(volumes, unseen, name, OutlyingFiles(path, files, view))
    unreadable: dict[str, str] = {}
    facts = {
        **read_host_names(),
        "clock_us": clock_us(),
        "uptime_s": read_uptime_s(unreadable),
        "booted_us": read_boot_time_us(),
        "data_directory": volumes[0].path,
        "made": read_births(volumes[0].path, unreadable),
        "changed": read_change_times(volumes[0].path, unreadable),
        "volumes": [volume.all() for volume in volumes],
        "unseen": unseen,
        "process": describe_server_process(volumes[0].path),
        **compare_with_server_view(places, view),
        "container": describe_container(process),
    }
    for name in ("hostname", "machine_id", "boot_id"):
        if not facts[name]:
            unreadable[name] = "not reported by the host"
    return {**facts, "unreadable": unreadable}


def require_server(process: int, directory: str) -> None:
    """Raise OSError unless a process is a server's that works in *directory*.

    It may have ended since it was found, and left its id to another process, which may
    find an old copy at the server's path.
    """
    if process not in map(pid_of, find_server_processes(directory)):
        text = f"process {process} is not a server's that works there (any more)"
        raise OSError(errno.ESRCH, text, directory)


def assign_place(volumes: list[Volume], name: str, path: str) -> None:
    """Put a place on the volume that it lies on."""
    found = Volume(path)
    same = [volume for volume in volumes if volume.device == found.device]
    (same or [found])[0].places[name] = found.path
    volumes += [] if same else [found]


def assign_outlying_files(
    volumes: list[Volume], unseen: dict[str, str], name: str, files: OutlyingFiles
) -> None:
    """Assign a place's files on other filesystems to the volumes of these."""
    if files.unseen:
        unseen[f"{name} files"] = files.unseen
    for number, path in enumerate(files.away, start=1):
        label = f"{name} files {number}" if number > 1 else f"{name} files"
        try:
            assign_place(volumes, label, path)
        except OSError as error:
            unseen[label] = describe_error(error, path)


def read_births(data: str, unreadable: dict[str, str]) -> dict[str, str]:
    """Return inode and birth time of the data directory and of LASTING_FILES in it.

    A copy that is put in its place has another inode and birth time.
    """
    births = {}
    for name, status in read_statuses(data, LASTING_FILES, "made", unreadable):
        birth = read_birth_time(os.path.join(data, name))
        births[name or "."] = f"inode {status.st_ino}{birth}"
    return births


def read_change_times(data: str, unreadable: dict[str, str]) -> dict[str, int]:
    """Return the ctime of files that no server writes, by name; ns since 1970.

    A copy that is written over them keeps inode and birth, and restores the mtime.
    """
    statuses = read_statuses(data, UNTOUCHED_FILES, "changed", unreadable)
    return {name: status.st_ctime_ns for name, status in statuses}


def read_statuses(
    data: str, names: Sequence[str], fact: str, unreadable: dict[str, str]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of the files *names* in *data* that exist.

    fact: the fact that needs them, under which *unreadable* notes an unreadable file.
    """
    for name in names:
        try:
            yield name, os.stat(os.path.join(data, name))
        except FileNotFoundError:
            continue
        except OSError as error:
            unreadable[f"{fact} {name}"] = error.strerror or str(error)


def read_uptime_s(unreadable: dict[str, str]) -> float | None:
    """Return the kernel's uptime in seconds, from /proc/uptime (proc(5))."""
    fields = read_first_line("/proc/uptime").split()
    if not fields:
        unreadable["uptime_s"] = "/proc/uptime cannot be read"
        return None
    return float(fields[0])


def find_linked_uuid(device: str) -> str:
    """Return the UUID of udev's link to *device*, "" if there is none."""
    with contextlib.suppress(OSError):  # no udev here
        for name in os.listdir(BY_UUID):
            path = os.path.join(BY_UUID, name)
            if os.path.realpath(path) == os.path.realpath(device):
                return name
    return ""


def read_birth_time(path: str) -> str:
    """Return a file's birth time as text; "" if the filesystem does not store it.

    Python's os.stat() does not report it; statx(2) does, in C libraries that have it.
    """
    buffer = ctypes.create_string_buffer(256)
    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError):
        return ""
    at_fdcwd, want_birth, birth_at = -100, 0x800, 80
    if statx(at_fdcwd, os.fsencode(path), 0, want_birth, buffer):
        return ""
    (mask,) = struct.unpack_from("I", buffer)
    seconds, nanoseconds = struct.unpack_from("qI", buffer, birth_at)
    return f" of {seconds}.{nanoseconds:09}" if mask & want_birth else ""


def describe_layer(folder: str, name: str, below: list[str]) -> dict[str, Any]:
    """Return one block device as plain values."""
    queue = find_queue_folder(folder)
    kinds = ("partition", "dm", "md", "loop")
    kind = next((k for k in kinds if os.path.exists(os.path.join(folder, k))), "disk")
    return {
        "name": name,
        "kind": kind,
        "dm_name": read_first_line(os.path.join(folder, "dm", "name")),
        "dm_uuid": read_first_line(os.path.join(folder, "dm", "uuid")),
        "backing_file": read_first_line(os.path.join(folder, "loop", "backing_file")),
        "write_cache": read_first_line(os.path.join(queue, "write_cache")),
        "fua": read_first_line(os.path.join(queue, "fua")),
        "below": below,
        "direct": read_first_line(os.path.join(folder, "loop", "dio")) == "1",
        "md": read_md_array(os.path.join(folder, "md")),
        "foreign": name_disk_provider(folder) if kind == "disk" else "",
        "backing": find_backing_filesystem(
            read_first_line(os.path.join(folder, "loop", "backing_file"))
        ),
    }


def find_queue_folder(folder: str) -> str:
    """Return the folder of a device's queue; a partition has its disk's."""
    queue = os.path.join(folder, "queue")
    if os.path.isdir(queue):
        return queue
    return os.path.join(os.path.dirname(folder), "queue")


def read_mounts_and_caches(
    points: list[str],
    devices: list[str],
    places: list[tuple[str, str, list[str]]],
    process: int,
) -> dict[str, dict[str, Any]]:
    """Return the options of mounts, and the write_cache of block devices, as of now.

    Also return the filesystems of *places*, see collect_facts().  Mounts and caches are
    read from the kernel's own files.  A folder is listed again only after a change; a
    drive that does not answer can delay that.
    """
    options = {mount["point"]: mount["options"] for mount in list_mounts()}
    folders = {name: os.path.realpath(os.path.join(BLOCK, name)) for name in devices}
    return {
        "mounts": {point: options.get(point, "") for point in points},
        "caches": {
            name: read_first_line(
                os.path.join(find_queue_folder(folder), "write_cache")
            )
            for name, folder in folders.items()
        },
        "places": {
            name: find_filesystem_of_place(path, files, View.of(process))
            for name, path, files in places
        },
    }


def find_filesystem_of_place(
    path: str, files: list[str], view: View
) -> list[tuple[str, str, str]] | None:
    """Return path (links followed), filesystem and its device of a place.

    The folders on other devices that hold files of the place follow, if they can be
    seen.  [] if the place does not exist, None if it cannot be seen, as when the
    process of *view* has ended.
    """
    try:
        volumes = [Volume(view.find(path))]
    except OSError as error:
        is_gone = error.errno in NOT_THERE_ERRORS and os.path.exists(view.folder)
        return [] if is_gone else None
    for folder in OutlyingFiles(path, files, view).away:
        with contextlib.suppress(OSError):  # it was removed just now
            volumes.append(Volume(folder))
    return [(volume.path, volume.mount["type"], volume.number) for volume in volumes]


def find_backing_filesystem(file: str) -> str:
    """Return the filesystem of a loop device's file, "" if it cannot be seen here."""
    return find_mount(file)["type"] if os.path.isfile(file) else ""


def read_md_array(folder: str) -> dict[str, str]:
    """Read the facts of an MD array, {} if the device is not one."""
    facts = {
        name: read_first_line(os.path.join(folder, file))
        for name, file in MD_FILES.items()
    }
    return {name: value for name, value in facts.items() if value}
