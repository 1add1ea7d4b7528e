"""The driver's arguments: from the URL, and from where MySQL's own clients look."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy.engine
import sqlalchemy.util
from mysql.connector.constants import DEFAULT_CONFIGURATION

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.secret import read_variable, require_private
from dbcheck.engines.mysql.optionfile import (
    Client,
    Option,
    is_on,
    pick_known_options,
    read_options,
    resolve_option,
    ssl_mode,
)
from dbcheck.engines.mysql.places import OPTION
from dbcheck.engines.peer import find_account_id
from dbcheck.engines.url import (
    PORTS,
    find_unreadable_file,
    invalid_host_error,
    require_hosts,
    require_single,
)

SERVER_ACCOUNT = "server_account"  # dbcheck's own, see SafeConnection
_KNOWN = DEFAULT_CONFIGURATION.keys() | {SERVER_ACCOUNT, OPTION}
# What is on or off; SQLAlchemy leaves some as text.
_SWITCHES = tuple(k for k, v in DEFAULT_CONFIGURATION.items() if isinstance(v, bool))
_HOST, _PORT = "127.0.0.1", 3306  # if none is given
_ONE_HOST = "Name one host, and its port apart: mysql://user@host:3306/database."
# The files that the driver reads for each connection.
_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
# The driver's own group, whose options have the driver's names.
_DRIVERS_GROUP = "connector_python"
# The driver's names for options of the clients; the others have the same.
_NAMES = {
    **{"socket": "unix_socket", "passwd": "password"},
    **{name.replace("_", "-"): name for name in _FILES},
}
_PASSWORDS = ("password", "password1", "password2", "password3")


def url_options(url: sqlalchemy.engine.URL, client: Client) -> dict[str, Any]:
    """Return the driver's arguments for *url*, its options and option files among them.

    client: whose clients' rules its option files follow.  Raise UsageError if an
    option that is on or off is neither, if it names an account that this machine does
    not have, or an option file that cannot be read, or that another user decides.
    """
    require_single(url, but=("option_files",))
    arguments = _url_arguments(url)
    if "read_default_file" in arguments:
        raise _invalid_option_error(
            "read_default_file", "Write option_files=FILE for it."
        )
    verification: dict[str, Any] = {}
    if named := arguments.pop("option_files", None):
        groups = _require_texts(arguments.pop("option_groups", ()))
        options = _read_option_files(_require_texts(named), groups, client)
        verification = _verification_arguments(options)
        arguments = {**_convert_options(options), **arguments}
    for name in _SWITCHES:
        try:
            sqlalchemy.util.coerce_kw_type(arguments, name, bool)
        except ValueError:
            raise _invalid_option_error(
                f"{name}={arguments[name]!r}",
                f"Write it like {name}=true or {name}=false.",
            ) from None
    if SERVER_ACCOUNT in arguments:
        name = str(arguments[SERVER_ACCOUNT])
        if (uid := find_account_id(name)) is None:
            raise _invalid_option_error(
                f"{SERVER_ACCOUNT}={name}: this machine has no account {name}",
                "Name the account that runs the server here, or its id.",
            )
        arguments[SERVER_ACCOUNT] = uid
    for name in arguments.keys() - _KNOWN:
        raise _invalid_option_error(
            f"{name!r} is unknown", "Options are those of mysql-connector-python."
        )
    socket_file = str(arguments.get("unix_socket") or "")
    if socket_file != socket_file.strip():
        raise _invalid_option_error(
            "unix_socket begins or ends with a blank", "Remove it: the driver does."
        )
    arguments["port"] = _parse_place(arguments)[1]
    if uses_tls(arguments):
        arguments = {**verification, **arguments}
    _require_files(arguments)
    return arguments


def uses_tls(arguments: Mapping[str, Any]) -> bool:
    """Return True if the driver would use TLS, if the server offers it."""
    return not (arguments.get("unix_socket") or arguments.get("ssl_disabled"))


def _parse_place(arguments: Mapping[str, Any]) -> tuple[str, int]:
    """Return the host and the port; raise UsageError if one is invalid."""
    host = str(arguments.get("host") or _HOST)
    require_hosts([host], _ONE_HOST)
    if "," in host:
        raise invalid_host_error(_ONE_HOST)
    given = str(arguments.get("port", _PORT))
    try:
        port = int(given)
    except ValueError:
        port = 0
    if port not in PORTS:
        hint = "Write the number at which the server listens, like port=3306."
        raise _invalid_option_error(f"port={given!r}", hint)
    return host, port


def _url_arguments(url: sqlalchemy.engine.URL) -> dict[str, Any]:
    """Return the driver's arguments that *url* holds itself."""
    try:
        return dict(url.get_dialect()().create_connect_args(url)[1])
    except ValueError as error:
        hint = "Write what is on or off like buffered=true or buffered=false."
        raise _invalid_option_error(str(error), hint) from None


def _require_texts(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


def _read_option_files(
    files: tuple[str, ...], groups: tuple[str, ...], client: Client
) -> dict[str, Option]:
    """Return the options in files that a URL names, by the driver's names.

    They are read here: the driver reads them in another way, takes a password's quotes
    for a part of it, and would read them again for each connection.
    """
    found: dict[str, Option] = {}
    for file in files:
        try:
            options = read_options(
                Path(file), groups or (*client.groups(), _DRIVERS_GROUP)
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"option_files: {file} cannot be read: {why}",
                id=ErrorId.FILE_NOT_READABLE,
                hint="Correct the file, or name another one.",
            ) from None
        for option in options:
            found |= _rename_for_driver(option, client)
    return found


def _rename_for_driver(option: Option, client: Client) -> dict[str, Option]:
    """Return *option* by the driver's name; nothing if it is for other clients."""
    is_drivers = option.group == _DRIVERS_GROUP
    if not is_drivers and (known := resolve_option(option, client)) is not None:
        return {_NAMES.get(known.name, known.name): known}
    name = option.name.replace("-", "_").lower()
    name = _NAMES.get(name, name)
    if name in DEFAULT_CONFIGURATION:
        return {name: option}
    if is_drivers:
        raise option.place.invalid(
            "has an option that mysql-connector-python does not know",
            "Correct its name, or remove the line.",
        )
    return {}


def _convert_options(options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the driver's arguments that *options* are; raise UsageError."""
    found = {
        name: _convert_value(name, option)
        for name, option in options.items()
        if name in DEFAULT_CONFIGURATION
    }
    for name in _PASSWORDS:
        if name in found:
            place = options[name].place
            require_private(place.path, place.status, "password")
    if read_variable("MYSQL_PWD") is not None:  # see client_options()
        found.pop("password", None)
    return found


def _convert_value(name: str, option: Option) -> Any:
    """Return an argument of the driver; no error repeats it, it may be misplaced."""
    value = option.value or ""
    if name in (*_FILES, "unix_socket"):
        return value
    _require_text(name, option)
    if name in _SWITCHES:
        try:
            return option.value is None or sqlalchemy.util.asbool(value)
        except ValueError:
            raise option.place.invalid(
                f"gives {option.name} a value that is neither on nor off",
                f"Write {option.name}=true or {option.name}=false.",
            ) from None
    if name == "port":
        if value.isdecimal() and int(value) in PORTS:
            return int(value)
        raise option.place.invalid(
            "gives port a value that is not a port",
            f"Write a number from 1 to {PORTS[-1]}.",
        )
    if isinstance(DEFAULT_CONFIGURATION[name], str) or name in _PASSWORDS:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return value


def _invalid_option_error(what: str, hint: str) -> UsageError:
    return UsageError(
        f"invalid option in the target's URL: {what}",
        id=ErrorId.TARGET_URL_OPTION_INVALID,
        hint=hint,
    )


def endpoints(arguments: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the host to which the driver connects, "" for a socket file; its port."""
    host, port = _parse_place(arguments)
    return [("" if arguments.get("unix_socket") else host, port)]


def client_options(
    client: Client,
    file: Path | None = None,
    *,
    has_password: bool = False,
    with_tls: bool = True,
) -> dict[str, Any]:
    """Return the options for all clients in ~/.my.cnf as arguments of the driver.

    That is user and password, and with_tls how to verify the server.  MYSQL_PWD comes
    before the file's password: who sets it means this run.  For the clients themselves
    it comes after (MariaDB 10.11, MySQL 9.7).
    has_password: there is another one, so none is looked for.  Raise UsageError, which
    holds none of it, for a file that *client*'s own programs cannot read, a password
    that is not UTF-8, or that others may read, and a file that others may write.
    """
    options = pick_known_options(
        _read_usual_options(file or _find_usual_file(), client), client
    )
    wanted = ("user",) if has_password else ("user", "password")
    own = None if has_password else read_variable("MYSQL_PWD")
    if own is not None:
        options.pop("password", None)
    found: dict[str, Any] = {} if own is None else {"password": own}
    for name in wanted:
        option = options.get(name)
        if option is None or option.value is None:
            continue
        if name == "password":
            require_private(option.place.path, option.place.status, name)
        _require_text(name, option)
        found[name] = option.value
    if with_tls:
        if (authority := options.get("ssl-ca")) is not None and authority.value:
            found["ssl_ca"] = authority.value
        found |= _verification_arguments(options)
    _require_files(found)
    return found


def _find_usual_file() -> Path:
    try:
        return Path.home() / ".my.cnf"
    except RuntimeError:  # this user has no home
        return Path(os.devnull)


def _read_usual_options(path: Path, client: Client) -> list[Option]:
    """Return the options for all clients in a file that need not be there.

    None of a file that is missing, or that this user may not read.
    """
    try:
        return read_options(path, client.groups())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            id=ErrorId.FILE_NOT_READABLE,
            hint="Remove it, or put a regular file with options of MySQL's"
            " clients there.",
        ) from None


def _require_files(arguments: Mapping[str, Any]) -> None:
    """Raise UsageError if the driver must not read a file that *arguments* name."""
    named = {name: str(arguments[name]) for name in _FILES if arguments.get(name)}
    if why := find_unreadable_file(named):
        raise UsageError(why, id=ErrorId.FILE_NOT_READABLE, hint="Name another file.")


def _verification_arguments(options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the driver's TLS arguments that verify as the products' clients do.

    ssl-mode is MySQL's, ssl-verify-server-cert MariaDB's, which means the name as well.
    """
    found: dict[str, Any] = {}
    if (mode := options.get("ssl-mode")) is not None:
        chosen = ssl_mode(mode)
        if chosen in ("VERIFY_CA", "VERIFY_IDENTITY"):
            found["ssl_verify_cert"] = True
            found["ssl_verify_identity"] = chosen == "VERIFY_IDENTITY"
    if (verify := options.get("ssl-verify-server-cert")) is not None:
        if is_on(verify):
            found["ssl_verify_cert"] = found["ssl_verify_identity"] = True
        else:
            found.setdefault("ssl_verify_cert", False)
    return found


def _require_text(name: str, option: Option) -> None:
    """Raise UsageError, which does not repeat it, for a value that is not UTF-8."""
    value = option.value or ""
    if value.isascii() or not any("\udc80" <= c <= "\udcff" for c in value):
        return
    place = option.place
    raise UsageError(
        f"the {name} in line {place.line} of {place.path} is not UTF-8",
        id=ErrorId.SECRET_NOT_UTF8,
        # Without them the clients cut the last byte of a final "à", a blank in latin1.
        hint=f'Store it as UTF-8, in quotes: {name}="VALUE".',
    )
