"""Checks that a server answers, and that it is the one that was meant.

A load balancer, a proxy or a name with several addresses may lead one connection to a
server and the next to another.  So each connection that matters is checked itself.

An address of this machine does not show which program answers there: any local user may
listen on a port that the server has left, as in a power cut, and make a socket file in
a folder that everybody may write.  So a process is trusted for its account alone, which
must be root, this user, or the server's own account, and not for its address.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import pwd
import socket
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, OtherServer
from dbcheck.base.owners import has_acl, is_group_of, own_users
from dbcheck.base.system import steps
from dbcheck.model.server import ServerFacts
from dbcheck.server_log.startlog import NAMES

_CONNECT_S = 2.0
# What connect(2) meets at a host that is off, or has no such server.
_OFF = frozenset(
    {
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ETIMEDOUT,
    }
)


@dataclass(frozen=True, slots=True)
class Answering:
    """Identity that a server reports over one connection.

    started_us: as in ServerFacts.
    standby:    the server follows another server.
    identity:   as in ServerFacts, but only the identifiers that one connection shows.
    """

    started_us: int
    standby: bool = False
    identity: Mapping[str, str] = field(default_factory=dict)


def takes_no_writes_error(target: str) -> EngineError:
    """Return the error of a server that clients cannot write to."""
    return EngineError(
        f"{target} takes no writes: it follows another server, recovers, or is"
        " read-only",
        id=ErrorId.SERVER_READ_ONLY,
        hint="Clients have to connect to the server that takes the writes.",
    )


def require_same(target: str, server: ServerFacts, found: Answering) -> None:
    """Raise OtherServer if *found* is not the same process of the same *server*.

    target: how error messages name the address that leads to it.
    """
    if why := _describe_difference(server, found):
        raise OtherServer(
            f"two connections to {target} reached different servers ({why}): there is a"
            " load balancer or proxy in between, or the server restarted",
            id=ErrorId.DIFFERENT_SERVERS_ANSWER,
            hint="Connect to the server directly, without a load balancer or proxy.",
        )


def _describe_difference(server: ServerFacts, found: Answering) -> str:
    """Describe the difference, "" if nothing known of both differs."""
    for name in sorted(server.identity.keys() & found.identity.keys()):
        now, before = found.identity[name], server.identity[name]
        if now != before:
            return f"{name} is {now} instead of {before}"
    apart_us = found.started_us - server.started_us
    if abs(apart_us) > 2 * server.started_error_us:
        later = "later" if apart_us > 0 else "earlier"
        return f"it started {abs(apart_us) / 1e6:.6g} s {later}"
    return "it is a standby" if found.standby and not server.may_follow else ""


def accepts(endpoints: Callable[[], Iterable[tuple[str, int]]]) -> bool:
    """Return True if one of these addresses accepts a connection.

    Whoever asks must not take the server for one that is off, so what is not known
    counts as accepted: a socket file (""), endpoints() that fails, a name that does not
    resolve, a client without free descriptors, one address of several that a firewall
    of this machine forbids.
    """
    try:
        return any(_accepts_connection(host, port) for host, port in endpoints())
    except DbcheckError:
        return True


def _accepts_connection(host: str, port: int) -> bool:
    if not host:
        return True
    place = (host, port)
    try:
        socket.create_connection(place, _CONNECT_S, all_errors=True).close()
    except ExceptionGroup as errors:  # one for each address of the host
        return not all(map(_is_host_off, errors.exceptions))
    except (OSError, UnicodeError):
        pass
    return True


def _is_host_off(error: Exception) -> bool:
    """Return True if a connection failed because the host is off or the port closed."""
    # Where it is Python's own limit, it has no number.
    return isinstance(error, TimeoutError) or getattr(error, "errno", None) in _OFF


def pick_log_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a server's log names when it starts."""
    return {name: settings[name] for name in NAMES if settings.get(name)}


_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred of unix(7)

# proc_pid_net(5), and Linux's Documentation/networking/proc_net_tcp.rst.
# Each with the bytes of its addresses; a server's socket of IPv6 may take IPv4 as well.
_IPV6 = ("/proc/thread-self/net/tcp6", 16)
_TABLES = dict([("/proc/thread-self/net/tcp", 4), _IPV6])
_ESTABLISHED = "01"
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9


def find_socket_owner(path: str) -> str | None:
    """Return the name of the account that listens at the socket file *path*.

    None if any account may listen there, if the account has no name, or if no process
    listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.settimeout(_CONNECT_S)
        try:
            wire.connect(path)
            uid = _find_listener(wire)
            if uid is None or not _may_listen(uid, path):
                return None
            return pwd.getpwuid(uid).pw_name
        except (OSError, ValueError, KeyError):
            return None


def is_servers_socket(wire: socket.socket, path: str, accounts: Set[int]) -> bool:
    """Return True if root, this user or the server listens at the socket file *path*.

    wire:     connected to the socket.
    accounts: the accounts that the user named.  The folder of the file shows which
              other account runs the server: if no account but its owner may put a file
              there, or another folder in its place, the owner does.
    """
    uid = _find_listener(wire)
    return uid is not None and (uid in accounts or _may_listen(uid, path))


def is_servers_port(wire: socket.socket, accounts: Set[int]) -> bool:
    """Return True if root, this user or one of *accounts* has the other end of *wire*.

    wire: of TCP; if it leads to another machine, no account here has its other end.
    The account has accepted the connection: a connection that waits for that, or that
    its program closed, has no inode, and is shown as root's.  The kernel may show a row
    twice if its table takes more than one read(2) (seen with Linux 6.18).
    """
    try:
        ours, theirs = (
            _read_address(wire.getsockname()),
            _read_address(wire.getpeername()),
        )
        rows = [
            row
            for row in _read_socket_rows(theirs, ours)
            if row[_STATE] == _ESTABLISHED
        ]
        ((uid, inode),) = {(int(row[_UID]), int(row[_INODE])) for row in rows}
    except (OSError, ValueError, IndexError):
        return False
    is_known = uid in accounts or (uid in _trusted_users() and _is_one_account(uid))
    return is_known and inode != 0


def find_account_id(account: str) -> int | None:
    """Return the id of an account of this machine, by its name or id; None if none."""
    if account.isascii() and account.isdigit():
        return int(account)
    return _find_account(account)


def _find_account(account: str) -> int | None:
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        return None


def _trusted_users() -> set[int]:
    return own_users() | {0}


def _find_listener(wire: socket.socket) -> int | None:
    """Return the user id of a Unix socket's listener; None where none shows it.

    As it was when listen(2) was called, so it is not who has the socket now (unix(7),
    SO_PEERCRED).
    """
    try:
        found = wire.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
    except (AttributeError, OSError):  # the former where the system has no such option
        return None
    uid: int = _CREDENTIALS.unpack(found)[1]
    return uid


def _may_listen(uid: int, path: str) -> bool:
    if not _is_one_account(uid):
        return False
    return uid in _trusted_users() or uid == _find_keeper(path)


def _is_one_account(uid: int) -> bool:
    """Return True if *uid* is one account's, and not the id that stands for many.

    The kernel shows the same id for each account that a user namespace does not map
    (user_namespaces(7), overflowuid).
    """
    try:
        return uid != int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return False


def _find_keeper(path: str) -> int | None:
    """Return the one user, beside root and this one, who decides what lies at *path*.

    That is the owner of its folder; None if others may change what is there.
    """
    try:
        way = list(steps(Path(path)))
        keeper = way[-1].parent.stat().st_uid
        is_file = stat.S_ISSOCK(way[-1].lstat().st_mode)  # and no abstract name
        kept = is_file and all(
            _is_replaceable_by_none_but(step, keeper) for step in way
        )
        return keeper if kept else None
    except (OSError, ValueError, IndexError):
        return None


def _is_replaceable_by_none_but(step: Path, keeper: int) -> bool:
    """Return True if nobody but root, this user and *keeper* may replace *step*."""
    folder = step.parent.stat()
    allowed = _trusted_users() | {keeper}
    if folder.st_uid not in allowed:
        return False
    if folder.st_mode & stat.S_IWOTH:
        # Of what is the keeper's own, it was another's first: a new boot empties /tmp.
        return (
            bool(folder.st_mode & stat.S_ISVTX)
            and step.lstat().st_uid in _trusted_users()
        )
    if folder.st_mode & stat.S_IWGRP:
        return not has_acl(step.parent) and is_group_of(folder.st_gid, allowed)
    return True


def _read_address(name: tuple[str, int]) -> tuple[ipaddress.IPv6Address, int]:
    """Return address and port of a socket, an IPv4 address as IPv6 maps it."""
    found = ipaddress.ip_address(name[0].partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        found = ipaddress.IPv6Address(f"::ffff:{found}")
    return found, name[1]


def _read_socket_rows(
    local: tuple[ipaddress.IPv6Address, int], remote: tuple[ipaddress.IPv6Address, int]
) -> Iterator[list[str]]:
    """Yield the kernel's rows of the sockets between these two, as *local* has them."""
    is_ipv4 = local[0].ipv4_mapped is not None
    for table, width in _TABLES.items() if is_ipv4 else [_IPV6]:
        wanted = [_format_address(local, width), _format_address(remote, width)]
        with contextlib.suppress(FileNotFoundError), open(table) as lines:
            for line in lines:
                row = line.split()
                if row[_LOCAL : _REMOTE + 1] == wanted:
                    yield row


def _format_address(name: tuple[ipaddress.IPv6Address, int], width: int) -> str:
    """Return an address as the table of addresses of *width* bytes has it.

    Its words are in the order of the bytes of this machine.
    """
    words = struct.unpack(f"={width // 4}I", name[0].packed[-width:])
    return "".join(f"{word:08X}" for word in words) + f":{name[1]:04X}"
