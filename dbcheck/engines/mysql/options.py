"""The driver's arguments: from the URL, and from the files of MySQL's own clients."""

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
    expand_named_files,
    find_unreadable_file,
    invalid_host_error,
    require_hosts,
    require_single,
)

# dbcheck's own argument: the account that runs the server, if that is on this machine
# (connection.SafeConnection).
SERVER_ACCOUNT = "server_account"
_KNOWN_ARGUMENTS = DEFAULT_CONFIGURATION.keys() | {SERVER_ACCOUNT, OPTION}
# Arguments that are on or off; SQLAlchemy leaves some of them as text.
_SWITCHES = tuple(
    name for name, value in DEFAULT_CONFIGURATION.items() if isinstance(value, bool)
)
_DEFAULT_HOST, _DEFAULT_PORT = "127.0.0.1", 3306
_ONE_HOST_HINT = "Name one host, and its port apart: mysql://user@host:3306/database."
# Arguments that name files which the driver reads for each connection.
_FILE_ARGUMENTS = ("ssl_ca", "ssl_cert", "ssl_key")
# The driver's own group in option files; the options in it have the driver's names.
_DRIVERS_GROUP = "connector_python"
# Option of the clients -> the driver's name for it, where the two differ.
_DRIVERS_NAMES = {
    **{"socket": "unix_socket", "passwd": "password"},
    **{name.replace("_", "-"): name for name in _FILE_ARGUMENTS},
}
_PASSWORDS = ("password", "password1", "password2", "password3")


def url_options(url: sqlalchemy.engine.URL, client: Client) -> dict[str, Any]:
    """Return the driver's arguments for *url*, with its options and option files.

    client: the product whose clients' rules apply to the option files.
    Raise UsageError for an option that the driver does not know or whose value it
    cannot take, for an account that this machine does not have, and for an option file
    that cannot be read, or that another user may change.
    """
    require_single(url, but=("option_files",))
    arguments = _url_arguments(url)
    if "read_default_file" in arguments:
        raise _invalid_option_error(
            "read_default_file", "Write option_files=FILE for it."
        )
    verification: dict[str, Any] = {}
    if files := arguments.pop("option_files", None):
        groups = _make_tuple(arguments.pop("option_groups", ()))
        options = _read_option_files(_make_tuple(files), groups, client)
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
    for name in arguments.keys() - _KNOWN_ARGUMENTS:
        raise _invalid_option_error(
            f"{name!r} is unknown", "Options are those of mysql-connector-python."
        )
    socket_file = str(arguments.get("unix_socket") or "")
    if socket_file != socket_file.strip():
        raise _invalid_option_error(
            "unix_socket begins or ends with a blank", "Remove it: the driver does."
        )
    arguments["port"] = _parse_host_and_port(arguments)[1]
    if uses_tls(arguments):
        arguments = {**verification, **arguments}
    arguments = expand_named_files(arguments, {*_FILE_ARGUMENTS, "unix_socket"})
    _require_files(arguments)
    return arguments


def uses_tls(arguments: Mapping[str, Any]) -> bool:
    """Return True if the driver uses TLS with a server that offers it."""
    return not (arguments.get("unix_socket") or arguments.get("ssl_disabled"))


def _parse_host_and_port(arguments: Mapping[str, Any]) -> tuple[str, int]:
    """Return the host and the port; raise UsageError if one is invalid."""
    host = str(arguments.get("host") or _DEFAULT_HOST)
    require_hosts([host], _ONE_HOST_HINT)
    if "," in host:
        raise invalid_host_error(_ONE_HOST_HINT)
    port_text = str(arguments.get("port", _DEFAULT_PORT))
    try:
        port = int(port_text)
    except ValueError:
        port = 0
    if port not in PORTS:
        hint = "Write the number at which the server listens, like port=3306."
        raise _invalid_option_error(f"port={port_text!r}", hint)
    return host, port


def _url_arguments(url: sqlalchemy.engine.URL) -> dict[str, Any]:
    """Return the driver's arguments in *url*, without those of its option files."""
    try:
        return dict(url.get_dialect()().create_connect_args(url)[1])
    except ValueError as error:
        hint = "Write what is on or off like buffered=true or buffered=false."
        raise _invalid_option_error(str(error), hint) from None


def _make_tuple(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts


def _read_option_files(
    files: tuple[str, ...], groups: tuple[str, ...], client: Client
) -> dict[str, Option]:
    """Return the options in files that a URL names, by the driver's names.

    dbcheck reads the files itself: the driver reads them by other rules than the
    clients, takes a password's quotes for a part of it, and would read the files again
    for each connection.
    """
    options_by_name: dict[str, Option] = {}
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
            options_by_name |= _rename_for_driver(option, client)
    return options_by_name


def _rename_for_driver(option: Option, client: Client) -> dict[str, Option]:
    """Return *option* by the driver's name; {} if it is for other clients."""
    is_drivers = option.group == _DRIVERS_GROUP
    if not is_drivers and (known := resolve_option(option, client)) is not None:
        return {_DRIVERS_NAMES.get(known.name, known.name): known}
    name = option.name.replace("-", "_").lower()
    name = _DRIVERS_NAMES.get(name, name)
    if name in DEFAULT_CONFIGURATION:
        return {name: option}
    if is_drivers:
        raise option.place.invalid(
            "has an option that mysql-connector-python does not know",
            "Correct its name, or remove the line.",
        )
    return {}


def _convert_options(options: Mapping[str, Option]) -> dict[str, Any]:
    """Return *options* as arguments of the driver; raise UsageError for an invalid one.

    A password of MYSQL_PWD comes before that of the files, as in client_options().
    """
    arguments = {
        name: _convert_value(name, option)
        for name, option in options.items()
        if name in DEFAULT_CONFIGURATION
    }
    for name in _PASSWORDS:
        if name in arguments:
            place = options[name].place
            require_private(place.path, place.status, "password")
    if read_variable("MYSQL_PWD") is not None:
        arguments.pop("password", None)
    return arguments


def _convert_value(name: str, option: Option) -> Any:
    """Return an option's value as an argument of the driver.

    No error repeats the value: it may be a password in the wrong place.
    """
    value = option.value or ""
    if name in (*_FILE_ARGUMENTS, "unix_socket"):
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
    """Return the host to which the driver connects ("" for a socket file), and port."""
    host, port = _parse_host_and_port(arguments)
    return [("" if arguments.get("unix_socket") else host, port)]


def client_options(
    client: Client,
    file: Path | None = None,
    *,
    has_password: bool = False,
    with_tls: bool = True,
) -> dict[str, Any]:
    """Return the options for all clients in ~/.my.cnf as arguments of the driver.

    They are user and password and, if *with_tls*, those that verify the server.
    MYSQL_PWD comes before the file's password, as it was set for this run.  For the
    clients themselves it comes after the file's (MariaDB 10.11, MySQL 9.7).
    has_password: the password is known already, so none is looked for.
    Raise UsageError, which repeats no password, for a file that the programs of
    *client* cannot read, or that others may write, and for a password that is not
    UTF-8, or that others may read.
    """
    options = pick_known_options(
        _read_usual_options(file or _find_usual_file(), client), client
    )
    names = ("user",) if has_password else ("user", "password")
    password = None if has_password else read_variable("MYSQL_PWD")
    if password is not None:
        options.pop("password", None)
    arguments: dict[str, Any] = {} if password is None else {"password": password}
    for name in names:
        option = options.get(name)
        if option is None or option.value is None:
            continue
        if name == "password":
            require_private(option.place.path, option.place.status, name)
        _require_text(name, option)
        arguments[name] = option.value
    if with_tls:
        if (authority := options.get("ssl-ca")) is not None and authority.value:
            arguments["ssl_ca"] = authority.value
        arguments |= _verification_arguments(options)
    _require_files(arguments)
    return arguments


def _find_usual_file() -> Path:
    try:
        return Path.home() / ".my.cnf"
    except RuntimeError:  # this user has no home
        return Path(os.devnull)


def _read_usual_options(path: Path, client: Client) -> list[Option]:
    """Return the options for all clients in a file.

    Return [] for a file that is missing, or that this user may not read.
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
    files = {
        name: str(arguments[name]) for name in _FILE_ARGUMENTS if arguments.get(name)
    }
    if why := find_unreadable_file(files):
        raise UsageError(why, id=ErrorId.FILE_NOT_READABLE, hint="Name another file.")


def _verification_arguments(options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the driver's TLS arguments that verify as the products' clients do.

    ssl-mode is MySQL's option.  ssl-verify-server-cert is MariaDB's, and verifies the
    server's name as well.
    """
    arguments: dict[str, Any] = {}
    if (mode := options.get("ssl-mode")) is not None:
        chosen = ssl_mode(mode)
        if chosen in ("VERIFY_CA", "VERIFY_IDENTITY"):
            arguments["ssl_verify_cert"] = True
            arguments["ssl_verify_identity"] = chosen == "VERIFY_IDENTITY"
    if (verify := options.get("ssl-verify-server-cert")) is not None:
        if is_on(verify):
            arguments["ssl_verify_cert"] = arguments["ssl_verify_identity"] = True
        else:
            arguments.setdefault("ssl_verify_cert", False)
    return arguments


def _require_text(name: str, option: Option) -> None:
    """Raise UsageError for a value that is not UTF-8; the error does not repeat it."""
    value = option.value or ""
    if value.isascii() or not any(
        "\udc80" <= character <= "\udcff" for character in value
    ):
        return
    place = option.place
    raise UsageError(
        f"the {name} in line {place.line} of {place.path} is not UTF-8",
        id=ErrorId.SECRET_NOT_UTF8,
        # Without quotes the clients cut the last byte of a final "à", as it is a blank
        # in latin1.
        hint=f'Store it as UTF-8, in quotes: {name}="VALUE".',
    )
