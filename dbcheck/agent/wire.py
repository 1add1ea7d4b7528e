"""Messages over a pair of streams, and facts of the host: shared by all agents.

An agent is a program that is sent over a channel and run there (see remote/channel.py);
this module travels in front of it.  It needs a POSIX system and the standard library
of Python 3.8, no more: no newer syntax or function may be used here, and no newer
type outside of an annotation.

A message has a verb or a kind of reply, a token, a count, the length of the payload,
and the payload; little endian.  Each agent has its own verbs, below 100, and its own
kinds of reply, above 110.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from dbcheck.base.system import sync

MESSAGE = struct.Struct("<BIII")
MESSAGE_BYTES_MAX = 8 << 20
RESULT, DATA, END, MARK, ERROR = range(101, 106)
HELLO = b"dbcheck agent 1\n"
CHUNK_BYTES = 1 << 18
READ_BYTES = 1 << 20
MOUNTINFO = "/proc/self/mountinfo"
IPV4_ROUTES, IPV6_ADDRESSES = "/proc/net/fib_trie", "/proc/net/if_inet6"
# Lines of mount(8): "source on point type kind (options)", or "source on point (kind,
# options)".
MOUNT = re.compile(r"(.*?) on (/.*?) (?:type (\S+) )?\(([^()]*)\)$")
# The source of a mount of sshfs(1), GlusterFS or NFS: "[user@]host:folder".
FILE_SERVER = re.compile(r"(?:[^@:/]*@)?(\[[^]]*\]|[^@:/\[]+):")
PROGRAM_TIMEOUT_S = 10.0
BOOT_TIME_READINGS = 3

T = TypeVar("T")


class Refusal(Exception):
    """A request that the agent does not carry out; code: the reason, for the client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ReplyStream:
    """The stream to the client, for any thread."""

    def __init__(self, fd: int) -> None:
        """Write to the descriptor *fd*."""
        self._fd = fd
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def hello(self) -> None:
        """Tell the client that the agent runs."""
        write_all(self._fd, HELLO)

    def send(self, kind: int, payload: bytes, token: int = 0) -> None:
        """Send one message; wait as long as it takes."""
        with self._lock:
            write_all(self._fd, MESSAGE.pack(kind, token, 0, len(payload)) + payload)

    def offer(self, kind: int, payload: bytes) -> bool:
        """Send a short message if that takes no waiting; return whether it was sent."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not self._poll.poll(0):
                return False
            write_all(self._fd, MESSAGE.pack(kind, 0, 0, len(payload)) + payload)
            return True
        finally:
            self._lock.release()


def take_messages(buffer: bytearray) -> list[tuple[int, int, int, bytes]]:
    """Remove the complete messages from the front of *buffer*, and return them."""
    messages: list[tuple[int, int, int, bytes]] = []
    start = 0
    while len(buffer) - start >= MESSAGE.size:
        verb, token, count, length = MESSAGE.unpack_from(buffer, start)
        if length > MESSAGE_BYTES_MAX:
            raise Refusal("protocol", f"a message of {length} bytes")
        end = start + MESSAGE.size + length
        if end > len(buffer):
            break
        body = bytes(buffer[start + MESSAGE.size : end])
        messages.append((verb, token, count, body))
        start = end
    del buffer[:start]
    return messages


def call(verb: Callable[[Any], T], payload: bytes) -> T:
    """Return *verb*'s answer to a request; refuse a request that it cannot use."""
    try:
        return verb(json.loads(payload))
    except (
        ArithmeticError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise Refusal("protocol", f"not a request: {error!r}") from error


def serve(agent: Any, replies: ReplyStream, fd_in: int) -> None:
    """Let *agent* handle() all messages until the channel ends, then close() it."""
    buffer = bytearray()
    try:
        replies.hello()
        while True:
            arrived = os.read(fd_in, READ_BYTES)
            if not arrived:
                return
            buffer += arrived
            agent.handle(take_messages(buffer))
    except Refusal as refusal:
        sys.exit(str(refusal))
    except BrokenPipeError:
        return  # the client is gone; it counts on nothing that was not confirmed
    finally:
        agent.close()


class RequestHandler:
    """Answers each message of a channel with one result, or with one error."""

    def __init__(self, replies: ReplyStream) -> None:
        """Answer through *replies*."""
        self._replies = replies

    def answer(self, verb: int, payload: bytes) -> object:
        """Carry out *verb* and return the result; raise Refusal or OSError."""
        raise NotImplementedError

    def handle(self, messages: list[tuple[int, int, int, bytes]]) -> None:
        """Answer all *messages* that have arrived."""
        for verb, _, _, payload in messages:
            try:
                result = self.answer(verb, payload)
            except Refusal as refusal:
                self._error(refusal.code, str(refusal))
            except OSError as error:
                self._error(errno_name(error), describe_error(error, "this host"))
            else:
                self._replies.send(RESULT, to_json(result))

    def _error(self, code: str, message: str) -> None:
        self._replies.send(ERROR, to_json({"code": code, "message": message}))


def prepare_process() -> None:
    """Prepare this process to be an agent."""
    os.chdir("/")  # keep no filesystem busy


def require_linux() -> None:
    """End this process, an agent on a target's host, if the host does not run Linux."""
    if not sys.platform.startswith("linux"):
        sys.exit("the target's host must run Linux, and this is " + sys.platform)


def clock_us() -> int:
    """Return this host's clock in microseconds since the epoch."""
    return time.time_ns() // 1000


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data*, also if the kernel takes it in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_durably(path: str, data: bytes) -> None:
    """Write a new file; its folder must still be synced."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fill_durably(fd, data)


def fill_durably(fd: int, data: bytes) -> None:
    """Write *data* durably to an open, empty file, and close it."""
    try:
        write_all(fd, data)
        sync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Make the names in the folder *path* durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def require_absolute(path: str) -> None:
    """Refuse a path that would count from wherever the agent happens to run."""
    if not os.path.isabs(path):
        raise Refusal("protocol", f"not an absolute path: {path!r}")


def make_folder(path: str) -> None:
    """Create *path* and its parents where missing, private and durably."""
    require_absolute(path)
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_folder(parent)
    with contextlib.suppress(FileExistsError):  # another agent was quicker
        os.mkdir(path, 0o700)
    sync_folder(parent)


def read_first_line(path: str) -> str:
    """Return the first line of a file, "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except (OSError, ValueError):
        return ""


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a file; none if it cannot be read.

    A line may contain "\\r", as a name in a table of /proc may.
    """
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            yield from file
    except OSError:
        return


def read_host_names() -> dict[str, Any]:
    """Read the names that identify this host; what cannot be read is empty."""
    return {
        "hostname": os.uname().nodename,
        "machine_id": read_first_line("/etc/machine-id"),
        "boot_id": read_first_line("/proc/sys/kernel/random/boot_id"),
        "addresses": sorted(list_addresses()),
    }


def read_boot_time_us() -> int | None:
    """Return the kernel's start by its clock now, None if that is not known.

    In microseconds since the epoch.  Only a set clock changes the value.  It is the
    same in every container.  A container may have its own boot id (systemd-nspawn, LXC)
    and its own /proc/uptime (lxcfs).
    """
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    # The two clocks are read one after the other; a pause between makes the value less.
    return max(
        clock_us() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        for _ in range(BOOT_TIME_READINGS)
    )


def list_addresses() -> Iterator[str]:
    """Yield this host's own addresses, without loopback, which every host has.

    From /proc/net/fib_trie (a leaf and then "/32 host LOCAL") and
    /proc/net/if_inet6 (proc(5)); without /proc, from ifconfig(8).
    """
    if not os.path.exists(IPV4_ROUTES) and not os.path.exists(IPV6_ADDRESSES):
        yield from parse_interface_addresses(read_program_lines("ifconfig", "-a"))
    leaf = ""
    for line in read_lines(IPV4_ROUTES):
        fields = line.split()
        if fields[:1] == ["|--"]:
            leaf = fields[1]
        elif fields == ["/32", "host", "LOCAL"] and not leaf.startswith("127."):
            yield leaf
    for line in read_lines(IPV6_ADDRESSES):
        digits = line.split()[0]
        if int(digits, 16) != 1:
            yield format_ipv6(digits)


def parse_interface_addresses(printed: Iterable[str]) -> Iterator[str]:
    """Yield the addresses in what ifconfig(8) prints, without loopback.

    Its lines have "inet 192.0.2.2 netmask ..." or "inet6 fe80::1%lo0 prefixlen ...".
    """
    import ipaddress  # takes 10 ms to import, and only facts need it

    for line in printed:
        fields = line.split()
        if len(fields) < 2 or fields[0] not in ("inet", "inet6"):
            continue
        try:
            address = ipaddress.ip_address(fields[1].partition("%")[0])
        except ValueError:
            continue
        if not address.is_loopback:
            yield str(address)


def format_ipv6(digits: str) -> str:
    """Return 32 hex digits as an address in its short form."""
    import ipaddress  # takes 10 ms to import, and only facts need it

    return str(ipaddress.IPv6Address(int(digits, 16)))


def find_mount(path: str) -> dict[str, str]:
    """Return point, source, type and options of the mount that *path* is on.

    All are "" if the table of mounts cannot be read.
    """
    return find_covering_mount(os.path.realpath(path))


def find_file_server(mount: dict[str, str]) -> str:
    """Return the name or address of a mount's file server, "" for a local disk.

    NFS and CIFS of Linux name it in their options (nfs(5), mount.cifs(8)), others in
    their source.
    """
    for option in mount["options"].split(","):
        if option.startswith("addr="):
            return option[len("addr=") :]
    match = FILE_SERVER.match(mount["source"])
    is_remote = mount["type"].startswith(("fuse.", "nfs"))
    return match[1].strip("[]") if match and is_remote else ""


def find_covering_mount(path: str, table: str = "") -> dict[str, str]:
    """Find the mount of a path without links; *table*: see list_mounts()."""
    covering = {"point": "", "source": "", "type": "", "options": ""}
    for mount in list_mounts(table):
        point = mount["point"]
        is_on_mount = point == "/" or path == point or path.startswith(point + "/")
        # A later mount covers an earlier one of the same point.
        if is_on_mount and len(point) >= len(covering["point"]):
            covering = mount
    return covering


def list_mounts(table: str = "") -> Iterator[dict[str, str]]:
    """Yield all mounts, each after the mounts that it covers; see find_mount().

    From mountinfo: "... point options ... - type source options" (proc(5)); without
    /proc, from mount(8).  table: the mountinfo of another process, "" for this one's.
    """
    if not os.path.exists(MOUNTINFO):
        yield from parse_mounts(read_program_lines("mount"))
    for line in read_lines(table or MOUNTINFO):
        fields = split_mount(line)
        kind, source, options = fields[fields.index("-") + 1 :][:3]
        yield {
            "point": unescape(fields[4]),
            "source": unescape(source),
            "type": kind,
            "options": ",".join(merge_options(fields[5], options)),
        }


def split_mount(line: str) -> list[str]:
    """Split a line of mountinfo into its fields; that of the source may be empty.

    Of white space the kernel escapes blanks, tabs and newlines alone (mangle(),
    fs/proc_namespace.c).
    """
    return line.rstrip("\n").split(" ")


def merge_options(of_mount: str, of_filesystem: str) -> list[str]:
    """Return the options of a mount, then the other options of its filesystem."""
    options = of_mount.split(",")
    others = [name for name in of_filesystem.split(",") if name not in options]
    return [*options, *others]


def parse_mounts(printed: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the mounts in what mount(8) prints, of Linux, macOS or a BSD."""
    for line in printed:
        match = MOUNT.match(line)
        if match is None:
            continue
        source, point, kind, options = match.groups()
        if kind is None:
            kind, _, options = options.partition(",")
        all_options = ",".join(option.strip() for option in options.split(","))
        yield {"point": point, "source": source, "type": kind, "options": all_options}


def read_program_lines(*command: str) -> list[str]:
    """Return the lines that a program of the system prints; none if it fails."""
    import subprocess  # takes 10 ms to import, and Linux does not need it

    path = "/sbin:/usr/sbin:/bin:/usr/bin"
    try:
        done = subprocess.run(
            command,
            env={"PATH": path, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode(errors="replace").splitlines()


def unescape(text: str) -> str:
    """Return a field of a mount table with its octal escapes decoded."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)


def describe_error(error: OSError, place: str) -> str:
    """Return the path of an error, else *place*, and its text."""
    return f"{error.filename or place}: {error.strerror or error}"


def errno_name(error: OSError) -> str:
    """Return the symbol of an error, e.g. "ENOSPC"."""
    import errno

    return errno.errorcode.get(error.errno or 0, "EIO")


def to_json(value: object) -> bytes:
    """Return *value* as JSON."""
    return json.dumps(value).encode()
