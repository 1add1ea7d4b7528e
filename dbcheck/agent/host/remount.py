"""Takes a server off drives that lost their power, and back onto them by a note.

A filesystem that stays in memory while its drive has no power could write old pages
over what recovery has read, once the drive is back.  So the power may come back only
once the kernel holds no filesystem of these drives.

The note says which filesystems to mount again, and which server was ended.  It lies on
the host, which keeps running, so any client that restores the power finds it.  It is
flushed to a disk that keeps its power, in case the host restarts meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import stat
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from dbcheck.agent.host.drives import GONE_ID, POLL_S, find_device_of_mount, is_held
from dbcheck.agent.host.mounts import (
    OTHERS,
    make_private_folder,
    open_folder_above,
    parse_mount_id,
    read_mount_id,
    read_mounts,
    resolve_path,
)
from dbcheck.agent.host.open import name_path_in_errors, open_regular
from dbcheck.agent.host.servers import (
    PROCESSES,
    find_guards,
    is_account_process,
    is_guard,
    kill_if_meant,
    works_elsewhere,
)
from dbcheck.agent.host.tools import PATHS, find_program
from dbcheck.agent.wire import (
    Refusal,
    describe_error,
    fill_durably,
    read_first_line,
    read_host_names,
    read_lines,
)

MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8  # umount(2)
KILL_S = 20.0
START_TIME = 19  # proc(5), stat: index of starttime among the fields after the name
PARTITIONS_BACK_S = 15.0  # the kernel must find a drive's partitions within this time
PRINTED_MAX = 2000  # most characters kept of what a program printed
HOLDERS_MAX = 8
# Exit codes of e2fsck(8): 1 and 2 for corrected errors, 4 for errors that are left.
FSCK_DAMAGED = 4
FSCK_FAILED = ~(1 | 2 | FSCK_DAMAGED)
XFS_MAGIC = b"XFSB"  # xfs_format.h: XFS_SB_MAGIC
# What mount(8) and e2fsck print if the stored filesystem is damaged.  Not "bad
# superblock" and "can't read superblock", which mount(8) also prints for an option that
# is refused, a module that is missing, a drive that cannot be read yet.
DAMAGE = ("Structure needs cleaning", "Bad magic number in super-block")


def run_program(
    command: Sequence[str], time_s: float, handles: Collection[int] = ()
) -> tuple[int, str]:
    """Return the exit code of a program, and what it printed; -1 if it did not end.

    handles: descriptors that the program inherits, under the same numbers.
    """
    program = find_program(command[0]) or command[0]
    try:
        completed = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=time_s,
            pass_fds=handles,
            cwd="/",
            env={**os.environ, "PATH": PATHS, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, f"{command[0]}: {error}"[:PRINTED_MAX]
    return completed.returncode, completed.stdout.decode(errors="replace").strip()[
        -PRINTED_MAX:
    ]


def end_server(
    directory: str,
    account: int,
    folder: Sequence[int],
    commands: Sequence[Sequence[str]],
    time_s: float,
) -> dict[str, Any]:
    """Kill the server of *directory*: by the commands, then process by process.

    See list_server_pids().  Processes that would start the server again are ended
    first.  time_s: for each command.  left: processes that did not end.
    """
    killed = list_server_pids(directory, account, folder)
    guards = {guard for pid in killed for guard in find_guards(pid, account)}
    for command in commands:
        run_program(command, time_s)
    ends_s = time.monotonic() + KILL_S

    def is_left(pid: int) -> bool:
        is_guarding = pid in guards and is_guard(str(pid), account)
        return is_guarding or is_server_process(pid, directory, account, folder)

    def list_remaining() -> list[int]:
        of_server = list_server_pids(directory, account, folder)
        guards.update(guard for pid in of_server for guard in find_guards(pid, account))
        return [*filter(is_left, sorted(guards)), *of_server]

    left = list_remaining()
    while left and time.monotonic() < ends_s:
        for pid in left:
            kill_if_meant(pid, is_left)
        time.sleep(POLL_S)
        left = list_remaining()
    return {"killed": killed, "left": left}


def list_server_pids(directory: str, account: int, folder: Sequence[int]) -> list[int]:
    """Return the processes of the server of *directory*.

    account: their owner.  folder: st_dev and st_ino of the directory before the cut, as
    a server in a container may work in another directory of the same path.
    """
    all_pids = sorted(map(int, filter(str.isdigit, os.listdir(PROCESSES))))
    return [
        pid for pid in all_pids if is_server_process(pid, directory, account, folder)
    ]


def is_server_process(
    pid: int, directory: str, account: int, folder: Sequence[int]
) -> bool:
    """Return True if a process is one of list_server_pids() now."""
    process = os.path.join(PROCESSES, str(pid))
    has_directory = is_account_process(process, directory, account)
    return has_directory and not works_elsewhere(process, directory, folder)


def read_started_s(pid: int) -> float:
    """Return a process's start in seconds since the host's boot; 0.0 if it ended."""
    stat = read_first_line(os.path.join(PROCESSES, str(pid), "stat"))
    fields = stat.rpartition(")")[2].split()
    if len(fields) <= START_TIME:
        return 0.0
    return int(fields[START_TIME]) / os.sysconf("SC_CLK_TCK")


def unmount(mount: dict[str, Any], flags: int, dead: Collection[int]) -> int:
    """Unmount exactly *mount*; return the number of the error, 0 if it succeeded.

    The folder above is held open, and names the mount: a descriptor of the mount itself
    would keep it busy (seen on Linux 6.18).  dead: see open_folder_above().
    Raise OSError, or Refusal if another mount would or could be unmounted.
    """
    folder = open_folder_above(mount["point"], dead)
    try:
        name = os.path.basename(mount["point"])
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if read_mount_id(handle) != mount["id"]:
                raise Refusal("point", f"{mount['point']} has another mount over it")
        finally:
            os.close(handle)
        libc = ctypes.CDLL(None, use_errno=True)
        path = os.fsencode(f"/proc/self/fd/{folder}/{name}")
        failed = libc.umount2(path, flags | UMOUNT_NOFOLLOW)
        return ctypes.get_errno() if failed else 0
    finally:
        os.close(folder)


def take_off(mounts: list[dict[str, Any]], time_s: float) -> dict[str, Any]:
    """Unmount the mounts, lazily if need be, until the kernel holds none of them.

    time_s: the time for killed processes to release their files, and again for the
    kernel to release the detached mounts.  A later mount at such a point is left alone.
    Return "off": for each mount, True if the kernel has released it; "lazy": True if it
    was detached while in use; "holders": the processes that still use one; "refused":
    the reason for each mount that was left alone, by path.
    """
    dead = [mount["id"] for mount in mounts]
    lazy_ids = set()
    refused: dict[str, str] = {}
    for mount in sorted(mounts, key=lambda mount: -len(mount["point"])):
        ends_s = time.monotonic() + time_s
        while is_mounted(mount):
            is_late = time.monotonic() >= ends_s
            try:
                error = unmount(mount, MNT_DETACH if is_late else 0, dead)
            except (OSError, Refusal) as why:
                if is_mounted(mount):  # else systemd was quicker
                    refused[mount["point"]] = describe_refusal(why, mount["point"])
                break
            if is_late:
                lazy_ids.add(mount["id"])
            if error not in (0, errno.EBUSY) or (is_late and error):
                break
            time.sleep(POLL_S)
    ends_s = time.monotonic() + time_s
    while not refused and any(map(is_still_held, mounts)) and time.monotonic() < ends_s:
        time.sleep(POLL_S)
    held_mounts = [mount for mount in mounts if is_still_held(mount)]
    return {
        "off": [not is_still_held(mount) for mount in mounts],
        "lazy": [mount["id"] in lazy_ids for mount in mounts],
        "holders": list_holders(held_mounts),
        "refused": refused,
    }


def describe_refusal(why: OSError | Refusal, place: str) -> str:
    """Return the reason for leaving the mount at the path *place* alone."""
    return str(why) if isinstance(why, Refusal) else describe_error(why, place)


def is_mounted(mount: dict[str, Any]) -> bool:
    """Return True if exactly this mount is still there."""
    wanted = (mount["id"], mount["point"], mount["device"])
    return any((each.id, each.point, each.device) == wanted for each in read_mounts())


def is_still_held(mount: dict[str, Any]) -> bool:
    """Return True if the kernel still holds the filesystem of a mount before the cut.

    A mount whose id is at most GONE_ID was seen off, or is of an earlier start of the
    host: another drive may have its name since.  It counts as held if its drive is
    absent and a filesystem is mounted at its point.
    """
    if mount["id"] <= GONE_ID:
        return not find_device_of_mount(mount) and bool(
            find_covering_mount(mount["point"])
        )
    return is_mounted(mount) or is_held(mount["type"], mount["name"])


def list_holders(mounts: list[dict[str, Any]]) -> list[str]:
    """List the users of the filesystems: processes with open files, then own mounts.

    All processes of a mount namespace share its mounts, so one process is listed.
    """
    if not mounts:
        return []
    file_users = []
    namespace_users: dict[str, str] = {}
    devices = {mount["device"] for mount in mounts}
    for name in filter(str.isdigit, os.listdir(PROCESSES)):
        folder = os.path.join(PROCESSES, name)
        user = f"process {name} ({read_first_line(folder + '/comm')}, "
        if has_file(folder, mounts):
            file_users.append(user + "a file)")
        elif has_mount(folder, devices):
            namespace_users.setdefault(
                identify_namespace(folder), user + "a mount of its own)"
            )
    return [*file_users, *namespace_users.values()][:HOLDERS_MAX]


def identify_namespace(process: str) -> str:
    """Identify a process's mount namespace; by the process itself if unknown."""
    try:
        return os.readlink(process + "/ns/mnt")
    except OSError:
        return process


def has_file(process: str, mounts: list[dict[str, Any]]) -> bool:
    """Return True if a process has an open file or works on one of the mounts.

    Descriptors are compared by the ids of their mounts (proc(5), fdinfo): a dead
    filesystem answers no stat(), and files of a detached mount have no path.
    """
    ids = {mount["id"] for mount in mounts}
    for link in ("cwd", "root"):
        with contextlib.suppress(OSError):
            handle = os.open(f"{process}/{link}", os.O_PATH | os.O_CLOEXEC)
            try:
                if read_mount_id(handle) in ids:
                    return True
            finally:
                os.close(handle)
    with contextlib.suppress(OSError):
        for number in os.listdir(process + "/fdinfo"):
            if parse_mount_id(f"{process}/fdinfo/{number}") in ids:
                return True
    return False


def has_mount(process: str, devices: set[str]) -> bool:
    """Return True if the process's mount namespace has one of *devices* mounted."""
    return any(
        line.split()[2] in devices for line in read_lines(process + "/mountinfo")
    )


def put_back(mounts: list[dict[str, Any]], time_s: float) -> list[dict[str, Any]]:
    """Check and mount each filesystem from its drive that is back, the outermost first.

    time_s: for each check and each mount.  Return in the order of *mounts* the device,
    what the check printed, and the failure; damaged: the stored content is its reason.
    """
    results = {}
    for mount in sorted(mounts, key=lambda mount: len(mount["point"])):
        results[mount["id"]] = put_one_back(mount, time_s)
    return [results[mount["id"]] for mount in mounts]


def put_one_back(mount: dict[str, Any], time_s: float) -> dict[str, Any]:
    """Check and mount the filesystem of one mount; see put_back()."""
    device = await_device(mount)
    result = {"device": "", "checked": "", "failure": "", "damaged": False}
    if not device:
        place = "drive" if mount["number"] == "0" else "partition " + mount["number"]
        why = f"no {place} with the serial {mount['serial']} came back"
        return {**result, "failure": why}
    result["device"] = os.path.basename(device)
    if is_mounted_from(mount, device):  # systemd mounted it
        return result
    if other := find_covering_mount(mount["point"]):
        why = f"{mount['point']} has another filesystem mounted on it, from {other}"
        return {**result, "failure": why}
    try:
        handle = open_mount_point(mount["point"])
    except (OSError, Refusal) as error:
        why = f"{device} was not mounted: {describe_refusal(error, mount['point'])}"
        if isinstance(error, Refusal) and error.code == OTHERS:
            why += "; make that folder root's alone (chown root, chmod go-w)"
        return {**result, "failure": why}
    try:
        return {**result, **check_and_mount(mount, device, handle, time_s)}
    finally:
        os.close(handle)


def open_mount_point(path: str) -> int:
    """Return a descriptor of the folder to mount on, on which nothing is mounted.

    An automount (autofs) may wait there, and is not triggered.  Raise OSError, or
    Refusal if it could be another folder than before the cut.
    """
    above = open_folder_above(path)
    try:
        name = os.path.basename(path)
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        mount = read_mount_id(handle)
        automounts = {other.id for other in read_mounts() if other.type == "autofs"}
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            why = "is a link, or not a folder"
        elif mount != read_mount_id(above) and mount not in automounts:
            why = "has another filesystem mounted on it"
        else:
            return handle
        os.close(handle)
        raise Refusal("point", f"{path} {why}")
    finally:
        os.close(above)


def check_and_mount(
    mount: dict[str, Any], device: str, handle: int, time_s: float
) -> dict[str, Any]:
    """Check and mount a filesystem on the folder *handle*; return result fields."""
    checked = ""
    if mount["type"].startswith("ext") and find_program("e2fsck"):
        code, text = run_program(("e2fsck", "-p", device), time_s)
        checked = text or "nothing"
        is_bad = code < 0 or code & (FSCK_DAMAGED | FSCK_FAILED)
        if is_bad and not is_mounted_from(mount, device):
            damaged = code >= 0 and bool(code & FSCK_DAMAGED)
            damaged = damaged or any(sign in text for sign in DAMAGE)
            why = f"e2fsck -p {device} ended with {code}: {text}"
            return {"checked": checked, "failure": why, "damaged": damaged}
    options = ("-t", mount["type"], "-o", mount["options"])
    # With the dot the kernel follows the link to the folder; move_mount(2), which newer
    # versions of mount(8) use, refuses the link itself.
    folder = f"/proc/self/fd/{handle}/."
    code, text = run_program(
        (*make_mount_command(), *options, device, folder), time_s, [handle]
    )
    if code and not is_mounted_from(mount, device):
        text = text.replace(folder, mount["point"])
        damaged = any(sign in text for sign in DAMAGE) or has_lost_magic(mount, device)
        why = f"{device} cannot be mounted on {mount['point']}: {text}"
        return {"checked": checked, "failure": why, "damaged": damaged}
    if not code and not is_mounted_from({**mount, "id": GONE_ID}, device):
        why = f"{device} was mounted, and is not on {mount['point']} now"
        return {"checked": checked, "failure": why}
    return {"checked": checked}


def make_mount_command() -> Sequence[str]:
    """Return the command of mount(8) that hands paths to the kernel as they are.

    The mount of busybox always does so (1.35), and has no option for it.
    """
    program = os.path.basename(os.path.realpath(find_program("mount")))
    return ("mount",) if "busybox" in program else ("mount", "--no-canonicalize")


def find_covering_mount(point: str) -> str:
    """Return the mount that covers *point*, "" if none but an automount does."""
    sources = [
        e.source for e in read_mounts() if e.point == point and e.type != "autofs"
    ]
    return sources[-1] if sources else ""


def has_lost_magic(mount: dict[str, Any], device: str) -> bool:
    """Return True if the device can be read, and does not begin like an XFS.

    mount(8) prints the same for such a device as for an option that is refused.
    """
    if mount["type"] != "xfs":
        return False
    try:
        with open(device, "rb") as file:
            first = file.read(len(XFS_MAGIC))
    except OSError:
        return False
    return len(first) == len(XFS_MAGIC) and first != XFS_MAGIC


def await_device(mount: dict[str, Any]) -> str:
    """Wait for the device of a mount and return it, "" if it does not come in time."""
    ends_s = time.monotonic() + PARTITIONS_BACK_S
    while True:
        device = find_device_of_mount(mount)
        if device or time.monotonic() >= ends_s:
            return device
        time.sleep(POLL_S)


def is_mounted_from(mount: dict[str, Any], device: str) -> bool:
    """Return True if a later mount than *mount* has the device at the same point."""
    number = os.stat(device).st_rdev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    return any(
        present.point == mount["point"]
        and present.device == wanted
        and present.id != mount["id"]
        for present in read_mounts()
    )


NOTE_FORMAT = 2


def make_note_path(folder: str, serials: Sequence[str]) -> str:
    """Return the path of the note on the drives that have these serials."""
    digest = hashlib.sha256("\0".join(sorted(set(serials))).encode()).hexdigest()
    return os.path.join(folder, f"drives-{digest[:24]}.json")


def write_note(folder: str, seen: dict[str, Any]) -> None:
    """Store durably what survey() returned.

    folder: must not be on one of the drives.  Raise Refusal if that fails, or if
    another account could exchange the note.
    """
    path = make_note_path(folder, list(seen["drives"]))
    try:
        make_private_folder(resolve_path(folder))
        with open_note_folder(path) as descriptor:
            store_note(descriptor, path, seen)
    except OSError as error:
        raise Refusal("note", describe_error(error, path)) from None


@contextlib.contextmanager
def open_note_folder(path: str) -> Iterator[int]:
    """Yield a descriptor of the folder of a note, which only root may write in.

    A note says what root mounts and unmounts, and whose processes it ends.  The folder,
    or one above it, may be a link of root's, as /var/lib is on some hosts.  Raise
    OSError, or Refusal as open_folder_above() does.
    """
    above, name = os.path.split(path)
    real = os.path.join(resolve_path(above), name)
    folder = open_folder_above(real, search_only=False)
    try:
        with name_path_in_errors(path):
            yield folder
    finally:
        os.close(folder)


def store_note(folder: int, path: str, seen: dict[str, Any]) -> None:
    """Write the note in the folder with that descriptor; raise OSError."""
    note = {
        "format": NOTE_FORMAT,
        "boot_id": read_host_names()["boot_id"],
        "uptime_s": time.clock_gettime(time.CLOCK_BOOTTIME),
        "seen": seen,
    }
    name = os.path.basename(path)
    with contextlib.suppress(FileNotFoundError):  # the draft of a client that was lost
        os.unlink(name + ".new", dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(name + ".new", flags, 0o600, dir_fd=folder)
    fill_durably(file, json.dumps(note).encode())
    os.replace(name + ".new", name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def read_note(folder: str, serials: Sequence[str]) -> dict[str, Any]:
    """Return the stored note or None, and the server that runs there now.

    seen: the survey that the note holds.  same_boot: the host was not started since.
    server: the processes of the server.  newer: all these processes were started after
    the note.  path: of the note.  Raise OSError, or Refusal if the note cannot be read.
    """
    path = make_note_path(folder, serials)
    try:
        with open_note_folder(path) as descriptor:
            file = open_regular(os.path.basename(path), folder=descriptor)
        with os.fdopen(file) as stream:
            note = json.load(stream)
        if note["format"] != NOTE_FORMAT:
            raise Refusal("note-read", f"{path} was written by another dbcheck")
        seen, since_s = note["seen"], float(note["uptime_s"])
        same = note["boot_id"] == read_host_names()["boot_id"]
        device, inode = map(int, seen["folder"])
        place = str(seen["directory"]), int(seen["account"]), (device, inode)
    except FileNotFoundError:
        return {"seen": None}
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal("note-read", f"{path} is damaged: {error!r}") from None
    started = {pid: read_started_s(pid) for pid in list_server_pids(*place)}
    server = {pid: at_s for pid, at_s in started.items() if at_s}  # 0.0: it ended
    newer = bool(server) and (not same or min(server.values()) > since_s)
    return {
        "seen": seen,
        "same_boot": same,
        "server": sorted(server),
        "newer": newer,
        "path": path,
    }


def remove_note(folder: str, serials: Sequence[str]) -> None:
    """Delete the note; its folder stays, as another client may be about to use it."""
    path = make_note_path(folder, serials)
    with contextlib.suppress(FileNotFoundError), open_note_folder(path) as descriptor:
        os.unlink(os.path.basename(path), dir_fd=descriptor)
        os.fsync(descriptor)
