"""Logins by libpq: options of a URL, the files that it reads, and a time limit.

libpq sends the password to any server that asks for it, in clear too, and by default
(sslmode=prefer) it verifies no server.  So either the user has asked libpq to verify
the server, or libpq asks the kernel who listens at a Unix socket (requirepeer), or it
refuses to log in that way.  A port of this machine is as any other host's: while the
server is off, any user of the machine may listen there.

While libpq computes what a server asks for it looks at no clock, no signal and no
connection: SCRAM has the server name the number of steps (RFC 5802, 5.1, "i="), and
libpq takes up to 2^31 - 1 of them (PostgreSQL 17, fe-auth-scram.c), half an hour on one
core.  A thread that does so cannot be ended, and the process ends without waiting for
it (interrupt.leave).  While one is left, no other login to its server begins.  Those
that had begun by then may be left as well: each process of a load begins up to 16 at
once (load.loop).

Until a connection stands, libpq writes a server's notices to C's stderr (PostgreSQL 17
manual, 34.13, Notice Processing), and psycopg2 takes them over only then.  A hostile
server could so send control sequences to a terminal.
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
    find_unreadable_file,
    invalid_host_error,
    require_hosts,
    require_single,
)

# PostgreSQL 17 manual, 34.15, 34.16, 34.17 and 34.19: each option, the variable that
# has the same meaning, and the file in the user's home that is read without either.
_FOLDER, _SERVICES = "PGSYSCONFDIR", "pg_service.conf"  # for all users (34.17)
_PASSWORDS = ("passfile", "PGPASSFILE", ".pgpass")
_OWN_SERVICES = ("servicefile", "PGSERVICEFILE", f".{_SERVICES}")
_FILES = (
    ("sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"),
    ("sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"),
    ("sslkey", "PGSSLKEY", ".postgresql/postgresql.key"),
    ("sslcrl", "PGSSLCRL", ".postgresql/root.crl"),
    _PASSWORDS,
    _OWN_SERVICES,
)


def require_readable(target: str, arguments: Mapping[str, Any]) -> None:
    """Raise EngineError for a file that libpq would wait for, or read without end.

    Also for a service file that another user may change: it says whom to connect to,
    and may let any server ask for the password.  target: how error messages name the
    server.  arguments: libpq's.
    """
    named = dict(_find_file(arguments, *file) for file in _FILES)
    if system := _system_services():
        named[_FOLDER] = system
    if why := find_unreadable_file(named):
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
    own, system = _find_file(arguments, *_OWN_SERVICES)[1], _system_services()
    return [own, system] if system else [own]


def _system_services() -> str:
    """Return the file of all users' services that the environment names, or ""."""
    folder = os.environ.get(_FOLDER)
    return os.path.join(folder, _SERVICES) if folder else ""


def password_advice(arguments: Mapping[str, Any]) -> str:
    """Return the advice for a server that asks for a password which libpq lacks.

    arguments: libpq's.  It says on standard error alone why it leaves a list of
    passwords aside (PostgreSQL 15, passwordFromFile in fe-connect.c).
    """
    path = _find_file(arguments, *_PASSWORDS)[1]
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
    """Return the option or variable that names a file, and the file."""
    if option in arguments:
        return option, str(arguments[option])
    if found := os.environ.get(variable):
        return variable, found
    return f"~/{usual}", os.path.expanduser(f"~/{usual}")


# PostgreSQL 17 manual, 34.1.2.  What remains are SCRAM, which shows the server that the
# client knows the password and not which it is, GSS, SSPI, and no password at all.
REFUSED = "!password,!md5"
_VERIFYING = ("verify-ca", "verify-full")
_REQUIRES_AUTH = 16_00_00  # the first libpq with require_auth
_NO_SUCH_SERVER = "?"  # for target_session_attrs
_NO_FOLDER = "/"
_PORT = "5432"
_PORT_FORM = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)  # as strtol(3) takes it
_WHERE = ("host", "hostaddr", "port")

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
    """Return libpq's arguments that *url* holds itself.

    Raise UsageError for hosts that SQLAlchemy cannot read, or would read as others:
    of several addresses of IPv6 it takes what stands before the first colon.
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
    """Return True if SQLAlchemy takes a part of *host* for a port that is none."""
    return host.count(":") > 1 or "@" in host[1:]


def libpq_options(target: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpq's arguments for the next connection, by either driver.

    target: how error messages name the server.  Raise EngineError if libpq cannot use
    the arguments, or is too old to refuse what it must not send.
    """
    effective = _read_effective_options(target, arguments)
    options = {**arguments, **effective.where()}
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
    """Return each host that libpq may connect to, "" for a socket file, and its port.

    Raise EngineError if libpq cannot use the arguments.
    """
    return [
        ("" if _is_socket(host) else host, _parse_port(port, target))
        for host, port in _read_effective_options(target, arguments).hosts()
    ]


def host_names(target: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of the hosts, also of those whose address hostaddr gives.

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
    """Return the owner of all these sockets' listeners, None if one is not known.

    Each is the folder and the port of one, as libpq takes them.
    """
    names = {
        find_socket_owner(f"{folder}/.s.PGSQL.{port}")
        if folder.startswith("/")
        else None
        for folder, port in sockets
    }
    return names.pop() if len(names) == 1 else None


@dataclass(frozen=True, slots=True)
class _Effective:
    """libpq's options after those of environment and service file.

    default_host: the folder of the socket to which it connects if no host is given.
    """

    options: Mapping[str, str]
    default_host: str

    def where(self) -> dict[str, str]:
        """Return those that name hosts and ports, as arguments.

        psycopg reads the environment itself, and before a service file (psycopg 3.3,
        conninfo_attempts): it would connect elsewhere than libpq does by itself.
        """
        return {name: self.options[name] for name in _WHERE if self.options[name]}

    def hosts(self) -> list[tuple[str, str]]:
        """Return each host that libpq may connect to, or socket's folder, and its port.

        One port is for all of them.
        """
        hosts = self.options["host"].split(",")
        addresses = self.options["hostaddr"].split(",")
        ports = self.options["port"].split(",")
        if len(ports) == 1:
            ports *= max(len(hosts), len(addresses))
        return [
            (address or host or self.default_host, port or _PORT)
            for address, host, port in zip_longest(
                addresses, hosts, ports, fillvalue=""
            )
        ]


def _text(target: str, item: ConninfoOption) -> str:
    """Return the value of an option of libpq's, also one that is no text.

    Raise EngineError, which does not repeat it, where psycopg is to be given it.
    """
    try:
        return (item.val or b"").decode()
    except UnicodeDecodeError:
        name = item.keyword.decode()
        if name not in _WHERE:  # it may be a password, or a file in the user's home
            return (item.val or b"").decode(errors="surrogateescape")
    raise EngineError(
        f"cannot connect to {target}: {name} is not UTF-8",
        id=ErrorId.TARGET_URL_OPTION_INVALID,
        hint="Correct it in the environment, or save the service file as UTF-8.",
    )


def _read_effective_options(target: str, arguments: Mapping[str, Any]) -> _Effective:
    """Return libpq's options after those of environment and service file.

    Only an attempt to connect puts them together.  This one fails before libpq looks
    any host up, over the last option that it reads.
    """
    asked = {
        **arguments,
        "password": None,
        "target_session_attrs": _NO_SUCH_SERVER,
    }
    try:
        attempt = PGconn.connect_start(make_conninfo(**asked).encode())
        try:
            text = attempt.error_message.decode("utf-8", "replace")
            found = attempt.info
            host = attempt.host.decode(errors="surrogateescape")
        finally:
            attempt.finish()
    except psycopg.Error as error:
        text, found, host = str(error), [], ""
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
    options = {item.keyword.decode(): _text(target, item) for item in found}
    # libpq names the host that it would begin with.
    is_given = options["host"] or options["hostaddr"]
    return _Effective(options, _NO_FOLDER if is_given else host)


T = TypeVar("T")
# For all of a login: libpq's limit is for each host, and none is the drivers' for what
# they ask a server then, e.g. psycopg2 one whose dates are not of the form ISO.
LOGIN_S = 60.0
GRACE_S = 5.0  # after it was severed
_HINT = (
    "Check what answers at that address. If it is your server, look at its"
    " scram_iterations when the account's password was set: 4096 are usual."
)
_left: dict[str, threading.Thread] = {}


def silence_stderr() -> None:
    """Let C's stderr lead nowhere; Python's own, and that of children, stay.

    A fatal error of the interpreter itself is not shown any more either.

    The GNU C library has it as a variable that may be set (its manual, 12.2, Standard
    Streams).  With another one, such as musl, nothing is changed.
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
    except (ValueError, OSError):  # not known there
        return False


def log_in(
    target: str, connect: Callable[[], T], sever: Callable[[], None], limit_s: float
) -> T:
    """Run *connect* and return its connection; abandon it after limit_s.

    target: how error messages name the server.  sever: see run_interruptible().
    Raise EngineError if it was left, and as long as an earlier one of that server was.
    """
    left = _left.get(target)
    if left is not None and left.is_alive():
        raise _endless_answer_error(target, "an earlier login to it has not ended")
    try:
        return run_interruptible(connect, sever, limit_s + GRACE_S)
    except StillRunning as error:
        _left[target] = error.thread
        raise _endless_answer_error(
            target, f"it did not end its login within {limit_s:g} s"
        ) from None


def new_session(
    target: str, arguments: Mapping[str, Any], connect_s: float
) -> psycopg.Connection:
    """Open a connection in autocommit mode; raise psycopg.Error, and as log_in() does.

    connect_s: within which each host of the URL must answer.
    """
    left = threading.Event()

    def connect() -> psycopg.Connection:
        options = {**arguments, "connect_timeout": connect_s}
        made = psycopg.connect(**options, autocommit=True)
        if left.is_set():
            made.close()
        return made

    return log_in(target, connect, left.set, connect_s + LOGIN_S)


def _endless_answer_error(target: str, why: str) -> EngineError:
    return EngineError(
        f"cannot connect to {target}: {why}",
        id=ErrorId.SERVER_NOT_ANSWERING,
        hint=_HINT,
    )
