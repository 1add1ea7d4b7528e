"""The driver's arguments: from the URL, and from where MySQL's own clients look."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy.engine
import sqlalchemy.util
from mysql.connector.constants import DEFAULT_CONFIGURATION
from mysql.connector.optionfiles import read_option_files

from dbcheck import plain
from dbcheck.engines.named_files import unreadable_file
from dbcheck.engines.peer import account_id
from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.others import who_may_write
from dbcheck.owners import is_ours
from dbcheck.secret import require_private, variable

SERVER_ACCOUNT = "server_account"  # dbcheck's own, see SafeConnection
# What is on or off; SQLAlchemy and the reader of option files leave some as text.
_SWITCHES = tuple(k for k, v in DEFAULT_CONFIGURATION.items() if isinstance(v, bool))
_HOST, _PORT = "127.0.0.1", 3306  # if none is given
# The files that the driver reads for each connection.
_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
_PASSWORD = re.compile(rb"\s*passw(or)?d", re.IGNORECASE)
# The values of ssl-verify-server-cert in an option file.
_ON = ("1", "on", "true")
_OFF = ("0", "off", "false")


def url_options(url: sqlalchemy.engine.URL) -> dict[str, Any]:
    """Return the driver's arguments for *url*, its options and option files among them.

    Raise UsageError if an option that is on or off is neither, if it names an account
    that this machine does not have, or an option file that the driver must not read.
    """
    arguments = _with_option_files(_given(url))
    for name in _SWITCHES:
        try:
            sqlalchemy.util.coerce_kw_type(arguments, name, bool)
        except ValueError:
            raise _invalid(
                f"{name}={arguments[name]!r}",
                f"Write it like {name}=true or {name}=false.",
            ) from None
    if SERVER_ACCOUNT in arguments:
        name = str(arguments[SERVER_ACCOUNT])
        if (uid := account_id(name)) is None:
            raise _invalid(
                f"{SERVER_ACCOUNT}={name}: this machine has no account {name}",
                "Name the account that runs the server here, or its id.",
            )
        arguments[SERVER_ACCOUNT] = uid
    try:
        arguments["port"] = int(arguments.get("port", _PORT))
    except (TypeError, ValueError):
        hint = "Write the number at which the server listens, like port=3306."
        raise _invalid(f"port={arguments['port']!r}", hint) from None
    _require_files(arguments)
    return arguments


def _given(url: sqlalchemy.engine.URL) -> dict[str, Any]:
    """Return the driver's arguments that *url* holds itself."""
    try:
        return dict(url.get_dialect()().create_connect_args(url)[1])
    except ValueError as error:
        hint = "Write what is on or off like buffered=true or buffered=false."
        raise _invalid(str(error), hint) from None


def _with_option_files(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, and those in the option files that they name.

    Else the driver would read the files again for each connection: by then they may
    hold something else than what was checked.
    """
    if "read_default_file" in arguments:
        raise _invalid("read_default_file", "Write option_files=FILE for it.")
    if (named := arguments.get("option_files")) is None:
        return arguments
    for each in (named,) if isinstance(named, str) else named:
        _require_option_file(Path(each))
    try:
        found: dict[str, Any] = read_option_files(**arguments)
    except (AttributeError, ValueError, configparser.Error) as error:
        # What the reader says repeats lines of the file, which may hold a password.
        is_unknown = isinstance(error, AttributeError)
        why = "the driver does not know" if is_unknown else "cannot be read"
        hint = "Correct the file, or name another one."
        raise _invalid(f"option_files={named} holds a line that {why}", hint) from None
    if "passwd" in found:
        found = {"password": found.pop("passwd"), **found}
    if variable("MYSQL_PWD") is not None:  # as it comes before that of ~/.my.cnf
        found.pop("password", None)
    return found


def _invalid(what: str, hint: str) -> UsageError:
    return UsageError(
        f"invalid option in the target's URL, or in its option_files: {what}",
        id=ErrorId.TARGET_URL_OPTION_INVALID,
        hint=hint,
    )


def endpoints(arguments: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the host to which the driver connects, "" for a socket file; its port."""
    port = arguments["port"]
    if arguments.get("unix_socket"):
        return [("", port)]
    return [(str(arguments.get("host") or _HOST), port)]


def client_options(
    file: Path | None = None, *, has_password: bool = False, with_tls: bool = True
) -> dict[str, Any]:
    """Return the section [client] of ~/.my.cnf as arguments of the driver.

    That is user and password, and with_tls how to verify the server.  MYSQL_PWD comes
    before the file's password, as it does for MySQL's clients.
    has_password: there is another one, so none is looked for.  Raise UsageError, which
    holds none of it, for a password that is not UTF-8, or that others may read, and
    for a file that others may write.
    """
    wanted = ("user",) if has_password else ("user", "password")
    path = file or _usual_file()
    options, status = _client_section(path)
    found: dict[str, Any] = {
        name: value for name in wanted if (value := options.get(name)) is not None
    }
    own = None if has_password else variable("MYSQL_PWD")
    if own is not None:
        found["password"] = own
    elif "password" in found and status is not None:
        require_private(path, status, "password")
    if not _is_text(found.get("password", "")):
        raise UsageError(
            f"the password in {file or '~/.my.cnf'} is not UTF-8",
            id=ErrorId.SECRET_NOT_UTF8,
            hint="Store it as UTF-8.",
        )
    if with_tls:
        found |= _verification(options)
    _require_files(found)
    return found


def _usual_file() -> Path:
    try:
        return Path.home() / ".my.cnf"
    except RuntimeError:  # this user has no home
        return Path(os.devnull)


def _client_section(path: Path) -> tuple[dict[str, str | None], os.stat_result | None]:
    """Return the options of [client] in a file, and the file's status.

    None of a file that is missing, or that this user may not read.  Raise UsageError
    if another user decides what is in it: a run could then use another account, or not
    verify the server.  MySQL's and MariaDB's clients warn of a file that any user may
    write, and ignore it (mysys/my_default.c).
    """
    try:
        with plain.opened(path) as file:
            status = os.fstat(file.fileno())
            _require_own(path, status)
            content = plain.content(file, plain.TEXT_MAX)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}, None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            id=ErrorId.FILE_NOT_READABLE,
            hint="Remove it, or put a regular file with options of MySQL's"
            " clients there.",
        ) from None
    parser = configparser.ConfigParser(
        allow_no_value=True, interpolation=None, strict=False, delimiters=("=",)
    )
    text = content.decode("utf-8", errors="surrogateescape")
    lines = (line for line in text.splitlines() if not line.startswith("!"))
    try:
        parser.read_string("\n".join(lines))
    except configparser.Error:
        return {}, None
    section = dict(parser["client"]) if parser.has_section("client") else {}
    options: dict[str, str | None] = {
        name.replace("_", "-"): None if value is None else _unquoted(value)
        for name, value in section.items()
    }
    return options, status


def _require_own(path: Path, found: os.stat_result) -> None:
    """Raise UsageError if another user decides what an option file holds."""
    place = shlex.quote(str(path))
    if not is_ours(found):
        what = f"{path} belongs to another user (uid {found.st_uid})"
        hint = f"Run: chown {os.geteuid()} {place}"
    elif stat.S_ISREG(found.st_mode) and (who := who_may_write(path, found)):
        what, hint = f"{who[0]} may write {path}", f"Run: {who[1]} {place}"
    else:
        return
    raise UsageError(
        f"{what}, which says how to log in to the server",
        id=ErrorId.SECRET_FILE_NOT_PRIVATE,
        hint=hint,
    )


def _require_option_file(path: Path) -> None:
    """Raise UsageError if the driver must not read an option file that a URL names.

    The driver must not read what is not a regular file, what others may write, what
    includes other files, or a password that others may read.
    """
    _require_readable({"option_files": str(path)})
    try:
        with plain.opened(path) as file:
            status = os.fstat(file.fileno())
            text = plain.content(file, plain.TEXT_MAX)
    except OSError as error:
        hint = "Correct its name, or its mode."
        raise _invalid(f"option_files={path}: {error.strerror}", hint) from None
    _require_own(path, status)
    lines = text.splitlines()
    if any(line.startswith(b"!include") for line in lines):
        raise UsageError(
            f"{path} includes other files, which are not checked",
            id=ErrorId.TARGET_URL_OPTION_INVALID,
            hint="Name each file in the URL: option_files=A&option_files=B.",
        )
    if any(map(_PASSWORD.match, lines)):
        require_private(path, status, "password")


def _require_files(arguments: Mapping[str, Any]) -> None:
    """Raise UsageError if the driver must not read a file that *arguments* name."""
    _require_readable(
        {name: str(arguments[name]) for name in _FILES if arguments.get(name)}
    )


def _require_readable(named: Mapping[str, str]) -> None:
    if why := unreadable_file(named):
        raise UsageError(why, id=ErrorId.FILE_NOT_READABLE, hint="Name another file.")


def _verification(options: Mapping[str, str | None]) -> dict[str, Any]:
    """Return how MySQL's and MariaDB's clients would verify the server over TLS.

    ssl-mode is MySQL's, ssl-verify-server-cert MariaDB's, which means the name as well.
    """
    found: dict[str, Any] = {}
    if authority := options.get("ssl-ca"):
        found["ssl_ca"] = authority
    mode = (options.get("ssl-mode") or "").upper()
    if mode in ("VERIFY_CA", "VERIFY_IDENTITY"):
        found["ssl_verify_cert"] = True
        found["ssl_verify_identity"] = mode == "VERIFY_IDENTITY"
    if "ssl-verify-server-cert" in options:
        value = options["ssl-verify-server-cert"]
        if value is None or value.lower() in _ON:
            found["ssl_verify_cert"] = found["ssl_verify_identity"] = True
        elif value.lower() in _OFF:
            found.setdefault("ssl_verify_cert", False)
    return found


def _is_text(value: str) -> bool:
    """Return whether *value* was UTF-8 before it was read with surrogateescape."""
    return value.isascii() or not any("\udc80" <= c <= "\udcff" for c in value)


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
