"""Logins by libpq: options of a URL, the files that it reads, and a time limit.

libpq sends the password to any server that asks for it, also in clear text, and by
default (sslmode=prefer) it verifies no server.  So either the user has asked libpq to
verify the server, or libpq asks the kernel who listens at a Unix socket (requirepeer),
or it refuses to send the password in clear text or as MD5.  A port of this machine is
no safer than another host's: while the server is off, any user of the machine may
listen there.

While libpq computes what a server asks for, it looks at no clock, no signal and no
connection.  In SCRAM the server names the number of steps (RFC 5802, 5.1, "i="), and
libpq takes up to 2^31 - 1 of them (PostgreSQL 17, fe-auth-scram.c), half an hour on one
core.  A thread that does so cannot be ended, and the process ends without waiting for
it (interrupt.leave).  While such a thread runs, no other login to its server begins.
Logins that had begun before may run on as well: each process of a load begins up to 16
at once (load.loop).

Until a connection is established, libpq writes a server's notices to C's stderr
(PostgreSQL 17 manual, 34.13, Notice Processing); only then psycopg2 takes them over.
So a hostile server could send control sequences to a terminal; silence_stderr()
prevents it.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import psycopg2.extensions
import sqlalchemy.engine
import sqlalchemy.exc
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConninfoOption, PGconn

from dbcheck.base.access import find_change_by_others
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.engines.link import StillRunning, format_message, run_interruptible
from dbcheck.engines.peer import find_socket_owner
from dbcheck.engines.url import (
    PORTS,
    SEVERAL,
    expand_named_files,
    find_unreadable_file,
    invalid_host_error,
    require_hosts,
    require_single,
)

# PostgreSQL 17 manual, 34.15, 34.16, 34.17 and 34.19: each option, the variable that
# has the same meaning, and the file in the user's home that is read without either.
# The variable that names the folder of all users' service file (34.17).
_SYSTEM_FOLDER_VARIABLE = "PGSYSCONFDIR"
_SERVICE_FILE = "pg_service.conf"
_PASSWORD_FILE = ("passfile", "PGPASSFILE", ".pgpass")
_USERS_SERVICE_FILE = ("servicefile", "PGSERVICEFILE", f".{_SERVICE_FILE}")
_FILES_OF_LIBPQ = (
    ("sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"),
    ("sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"),
    ("sslkey", "PGSSLKEY", ".postgresql/postgresql.key"),
    ("sslcrl", "PGSSLCRL", ".postgresql/root.crl"),
    _PASSWORD_FILE,
    _USERS_SERVICE_FILE,
)


def expand_files(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpq's *arguments* with ~ replaced at the start of a file's name.

    libpq itself would look for a folder called ~.  Raise UsageError.
    """
    names = {option for option, _, _ in _FILES_OF_LIBPQ}
    return expand_named_files(arguments, names)


def require_readable(target: str, arguments: Mapping[str, Any]) -> None:
    """Raise EngineError for a file that libpq would wait for, or read without end.

    Raise it also for a service file that another user may change: it says where to
    connect to, and may let any server ask for the password.
    target: how error messages name the server.  arguments: libpq's.
    """
    files = dict(_find_file(arguments, *file) for file in _FILES_OF_LIBPQ)
    if system := _system_service_file():
        files[_SYSTEM_FOLDER_VARIABLE] = system
    if why := find_unreadable_file(files):
        raise EngineError(
            f"cannot connect to {target}: {why}",
            id=ErrorId.FILE_NOT_READABLE,
            hint="Name another file, or remove this one.",
        )
    for path in _service_files(arguments):
        if os.path.exists(path) and (change := find_change_by_others(Path(path))):
            raise EngineError(
                f"cannot connect to {target}: {change.how}: it says how to log in to"
                " the server",
                id=ErrorId.SECRET_FILE_NOT_PRIVATE,
                hint=f"Run: {change.end}",
            )


def _service_files(arguments: Mapping[str, Any]) -> list[str]:
    """Return the files in which libpq looks a service up (manual, 34.17)."""
    if not (arguments.get("service") or os.environ.get("PGSERVICE")):
        return []
    own, system = _find_file(arguments, *_USERS_SERVICE_FILE)[1], _system_service_file()
    return [own, system] if system else [own]


def _system_service_file() -> str:
    """Return the file of all users' services that the environment names, or ""."""
    folder = os.environ.get(_SYSTEM_FOLDER_VARIABLE)
    return os.path.join(folder, _SERVICE_FILE) if folder else ""


def password_advice(arguments: Mapping[str, Any]) -> str:
    """Return the advice for a server that asks for a password which libpq lacks.

    arguments: libpq's.
    libpq itself writes only to standard error why it ignores a password file
    (PostgreSQL 15, passwordFromFile in fe-connect.c), so the advice says why.
    """
    path = _find_file(arguments, *_PASSWORD_FILE)[1]
    return (
        f"{_explain_ignored_password_file(path)}Give it with --password-command, in"
        " DBCHECK_PASSWORD or"
        f" PGPASSWORD, or as HOST:PORT:DATABASE:USER:PASSWORD in {path}."
    )


def _explain_ignored_password_file(path: str) -> str:
    """Explain in a sentence why libpq does not use the password file *path*."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}. "
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        command = f"chmod 600 {shlex.quote(path)}"
        return f"libpq ignores {path}, since it is not yours alone: run {command}. "
    return f"No line of {path} is for this host, port, database and user. "


def _find_file(
    arguments: Mapping[str, Any], option: str, variable: str, usual: str
) -> tuple[str, str]:
    """Return what names a file, for messages, and the file's path.

    usual: the file in the user's home that libpq reads if neither the option nor the
           variable is set.
    """
    if option in arguments:
        return option, str(arguments[option])
    if path := os.environ.get(variable):
        return variable, path
    return f"~/{usual}", os.path.expanduser(f"~/{usual}")


# Value of require_auth (PostgreSQL 17 manual, 34.1.2).  It leaves SCRAM, in which the
# client proves that it knows the password and does not send it, GSS, SSPI, and logins
# without a password.
REFUSED = "!password,!md5"
_VERIFYING = ("verify-ca", "verify-full")
_REQUIRES_AUTH = 16_00_00  # the first libpq with require_auth
_NO_SUCH_SERVER = "?"  # an invalid value of target_session_attrs
_UNUSED_FOLDER = "/"
_DEFAULT_PORT = "5432"
_PORT_FORM = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)  # as strtol(3) takes it
_PLACE_OPTIONS = ("host", "hostaddr", "port")

UNVERIFIED_HINT = (
    "Make the connection verify the server: add sslmode=verify-full&sslrootcert=FILE"
    " to the URL, where FILE is the certificate of the authority that signed the"
    " server's. Or store the account's password for SCRAM: set password_encryption ="
    " scram-sha-256, set the password again, and use scram-sha-256 in pg_hba.conf. Or,"
    " on the server's own machine, use its Unix socket, in a folder that no other"
    " account may write: host=/run/postgresql; requirepeer=ACCOUNT names the account"
    " that runs the server. To send the password to any server that answers there, add"
    " require_auth=md5 or require_auth=password to the URL."
)


def url_arguments(url: sqlalchemy.engine.URL) -> dict[str, Any]:
    """Return libpq's arguments in *url*.

    Raise UsageError for hosts that SQLAlchemy cannot read, or would read as other
    hosts: of several addresses of IPv6 it takes the text before the first colon.
    """
    require_single(url, but=("host", "port"))
    hosts = url.query.get("host", ())
    if isinstance(hosts, tuple) and any(map(_is_misread, hosts)):
        raise invalid_host_error(SEVERAL)
    try:
        arguments = dict(url.get_dialect()().create_connect_args(url)[1])
    except sqlalchemy.exc.ArgumentError as error:
        raise UsageError(
            f"invalid option in the target's URL: {error}",
            id=ErrorId.TARGET_URL_OPTION_INVALID,
            hint="Write a port for each host: ?host=db1,db2&port=5432,5432.",
        ) from None
    for name in ("host", "hostaddr"):
        require_hosts(arguments.get(name, "").split(","), SEVERAL)
    return arguments


def _is_misread(host: str) -> bool:
    """Return True if SQLAlchemy takes a part of *host* for a port that is no port."""
    return host.count(":") > 1 or "@" in host[1:]


def libpq_options(target: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpq's arguments for the next connection of psycopg or psycopg2.

    target: how error messages name the server.
    Raise EngineError if libpq cannot use the arguments, or if it is too old for
    require_auth and would send a password to an unverified server.
    """
    effective = _read_effective_options(target, arguments)
    options = {**arguments, **effective.place_options()}
    if effective.options.get("require_auth"):
        return options
    hosts = effective.hosts()
    sockets = [(host, port) for host, port in hosts if _is_socket(host)]
    verifies = effective.options["sslmode"] in _VERIFYING
    if len(sockets) == len(hosts) or verifies:
        # Over a Unix socket libpq has no TLS, whatever sslmode says.
        if not sockets or effective.options.get("requirepeer"):
            return options
        if peer := _find_common_owner(sockets):
            return {**options, "requirepeer": peer}
    if min(psycopg.pq.version(), psycopg2.extensions.libpq_version()) < _REQUIRES_AUTH:
        raise EngineError(
            f"cannot connect to {target}: this libpq would send the password in clear"
            " text to any server that requests it",
            id=ErrorId.LIBPQ_TOO_OLD,
            hint="Install psycopg[binary] and psycopg2-binary with libpq 16 or newer;"
            " or add sslmode=verify-full&sslrootcert=FILE to the URL, or requirepeer="
            " and the server's account for its Unix socket.",
        )
    return {**options, "require_auth": REFUSED}


def endpoints(target: str, arguments: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return each host that libpq may connect to ("" for a socket file), and its port.

    Raise EngineError if libpq cannot use the arguments.
    """
    return [
        ("" if _is_socket(host) else host, _parse_port(port, target))
        for host, port in _read_effective_options(target, arguments).hosts()
    ]


def host_names(target: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of the hosts in the option host, whatever hostaddr says.

    Raise EngineError if libpq cannot use the arguments.
    """
    return _read_effective_options(target, arguments).options["host"].split(",")


def _parse_port(port: str, target: str) -> int:
    """Return a port as libpq reads it: with spaces or a sign around its digits."""
    number = int(port) if _PORT_FORM.fullmatch(port) else 0
    if number not in PORTS:
        raise EngineError(
            f"cannot connect to {target}: the port {port!r} is not a number"
            f" from 1 to {PORTS[-1]}",
            id=ErrorId.TARGET_URL_OPTION_INVALID,
            hint="Correct it in the URL, in PGPORT or in the service file.",
        )
    return number


def _is_socket(host: str) -> bool:
    """Return True if libpq takes *host* for the place of a socket file."""
    return host.startswith(("/", "@"))


def _find_common_owner(sockets: Sequence[tuple[str, str]]) -> str | None:
    """Return the one account behind all sockets; None if several, or not known.

    sockets: the folder and the port of each, as libpq takes them.
    """
    owners = {
        find_socket_owner(f"{folder}/.s.PGSQL.{port}")
        if folder.startswith("/")
        else None
        for folder, port in sockets
    }
    return owners.pop() if len(owners) == 1 else None


@dataclass(frozen=True, slots=True)
class _EffectiveOptions:
    """libpq's options, with those that it takes from environment and service file.

    default_host: the folder of the socket to which libpq connects without a host.
    """

    options: Mapping[str, str]
    default_host: str

    def place_options(self) -> dict[str, str]:
        """Return the options that name hosts and ports, as arguments.

        psycopg itself reads the environment, and before a service file (psycopg 3.3,
        conninfo_attempts): without these arguments it would connect elsewhere than
        libpq does.
        """
        return {
            name: self.options[name] for name in _PLACE_OPTIONS if self.options[name]
        }

    def hosts(self) -> list[tuple[str, str]]:
        """Return each host, or folder of a socket, that libpq may connect to; its port.

        If the options name a single port, it is for all hosts.
        """
        hosts = self.options["host"].split(",")
        addresses = self.options["hostaddr"].split(",")
        ports = self.options["port"].split(",")
        if len(ports) == 1:
            ports *= max(len(hosts), len(addresses))
        return [
            (address or host or self.default_host, port or _DEFAULT_PORT)
            for address, host, port in zip_longest(
                addresses, hosts, ports, fillvalue=""
            )
        ]


def _decode_option(target: str, item: ConninfoOption) -> str:
    """Return the value of an option of libpq's, also a value that is not UTF-8.

    Raise EngineError, which does not repeat the value, for such a value in an option
    that psycopg is given (_PLACE_OPTIONS).
    """
    try:
        return (item.val or b"").decode()
    except UnicodeDecodeError:
        name = item.keyword.decode()
        # Another option may hold a password, or a file in the user's home.
        if name not in _PLACE_OPTIONS:
            return (item.val or b"").decode(errors="surrogateescape")
    raise EngineError(
        f"cannot connect to {target}: {name} is not UTF-8",
        id=ErrorId.TARGET_URL_OPTION_INVALID,
        hint="Correct it in the environment, or save the service file as UTF-8.",
    )


def _read_effective_options(
    target: str, arguments: Mapping[str, Any]
) -> _EffectiveOptions:
    """Return libpq's options, with those of environment and service file.

    libpq puts them together only in an attempt to connect.  This attempt fails before
    libpq looks any host up, as the last option that it reads is invalid.
    """
    attempted = {
        **arguments,
        "password": None,
        "target_session_attrs": _NO_SUCH_SERVER,
    }
    try:
        attempt = PGconn.connect_start(make_conninfo(**attempted).encode())
        try:
            text = attempt.error_message.decode("utf-8", "replace")
            items = attempt.info
            host = attempt.host.decode(errors="surrogateescape")
        finally:
            attempt.finish()
    except psycopg.Error as error:
        text, items, host = str(error), [], ""
    if "target_session_attrs" not in text:
        why = format_message(
            psycopg.Error(text),
            str(arguments.get("password") or ""),
        )
        raise EngineError(
            f"cannot connect to {target}: {why}",
            id=ErrorId.TARGET_URL_OPTION_INVALID,
            hint="Check the options in the URL, in libpq's environment and in its"
            " service file (~/.pg_service.conf, PGSERVICEFILE).",
        )
    options = {item.keyword.decode(): _decode_option(target, item) for item in items}
    # *host* is the one that libpq would try first: without a host its default.
    is_given = options["host"] or options["hostaddr"]
    return _EffectiveOptions(options, _UNUSED_FOLDER if is_given else host)


T = TypeVar("T")
# Limit for a whole login.  libpq's own limit is for each host, and the drivers have no
# limit for the statements that they send at a login, as psycopg2 does to a server whose
# DateStyle is not ISO.
LOGIN_S = 60.0
GRACE_S = 5.0  # how far beyond its limit a login is abandoned
_ENDLESS_LOGIN_HINT = (
    "Check what answers at that address. If it is your server, look at its"
    " scram_iterations when the account's password was set: 4096 are usual."
)
_unended_logins: dict[str, threading.Thread] = {}  # target -> thread of its login


def silence_stderr() -> None:
    """Let C's stderr lead nowhere; Python's stderr, and that of children, stay.

    A fatal error of the interpreter itself is not shown any more, either.

    In the GNU C library stderr is a variable that may be set (its manual, 12.2,
    Standard Streams).  With another C library, such as musl, nothing is changed.
    """
    if not _is_glibc():
        return
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    nowhere = libc.fopen(os.devnull.encode(), b"we")
    if nowhere:
        ctypes.c_void_p.in_dll(libc, "stderr").value = nowhere


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (ValueError, OSError):  # another system does not know that name
        return False


def log_in(
    target: str, connect: Callable[[], T], sever: Callable[[], None], limit_s: float
) -> T:
    """Run *connect* and return its connection; abandon it after limit_s and GRACE_S.

    target: how error messages name the server.
    sever:  called when the login is abandoned, or interrupted.
    Raise EngineError if the login was abandoned, and while an abandoned login to the
    same server still runs.
    """
    earlier = _unended_logins.get(target)
    if earlier is not None and earlier.is_alive():
        raise _endless_answer_error(target, "an earlier login to it has not ended")
    try:
        return run_interruptible(connect, sever, limit_s + GRACE_S)
    except StillRunning as error:
        _unended_logins[target] = error.thread
        raise _endless_answer_error(
            target, f"it did not end its login within {limit_s:g} s"
        ) from None


def new_session(
    target: str, arguments: Mapping[str, Any], connect_s: float
) -> psycopg.Connection:
    """Open a connection in autocommit mode; raise psycopg.Error, and as log_in() does.

    connect_s: seconds within which each host of the URL must answer.
    """
    abandoned = threading.Event()

    def connect() -> psycopg.Connection:
        options = {**arguments, "connect_timeout": connect_s}
        connection = psycopg.connect(**options, autocommit=True)
        if abandoned.is_set():
            connection.close()
        return connection

    return log_in(target, connect, abandoned.set, connect_s + LOGIN_S)


def _endless_answer_error(target: str, why: str) -> EngineError:
    return EngineError(
        f"cannot connect to {target}: {why}",
        id=ErrorId.SERVER_NOT_ANSWERING,
        hint=_ENDLESS_LOGIN_HINT,
    )
