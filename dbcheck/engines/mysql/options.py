"""The driver's arguments: from the URL, and from where MySQL's own clients look."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy.engine
import sqlalchemy.util

from dbcheck.engines.peer import account_id
from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.secret import variable

SERVER_ACCOUNT = "server_account"  # dbcheck's own, see SafeConnection
# Those of the driver's switches that SQLAlchemy leaves as text.
_SWITCHES = ("ssl_disabled", "ssl_verify_identity")
# The values of ssl-verify-server-cert in an option file.
_ON = ("1", "on", "true")
_OFF = ("0", "off", "false")


def url_options(url: sqlalchemy.engine.URL) -> dict[str, Any]:
    """Return the driver's arguments for *url*, its options among them.

    Raise UsageError if an option that is on or off is neither, or if it names an
    account that this machine does not have.
    """
    try:
        arguments = dict(url.get_dialect()().create_connect_args(url)[1])
        for name in _SWITCHES:
            sqlalchemy.util.coerce_kw_type(arguments, name, bool)
    except ValueError as error:
        raise UsageError(
            f"invalid option in the target's URL: {error}",
            id=ErrorId.TARGET_URL_OPTION_INVALID,
            hint="Write it like ssl_disabled=true or ssl_disabled=false.",
        ) from None
    if SERVER_ACCOUNT in arguments:
        name = str(arguments[SERVER_ACCOUNT])
        if (uid := account_id(name)) is None:
            raise UsageError(
                f"invalid option in the target's URL: {SERVER_ACCOUNT}={name}, which is"
                " no account of this machine",
                id=ErrorId.TARGET_URL_OPTION_INVALID,
                hint="Name the account that runs the server here, or its id.",
            )
        arguments[SERVER_ACCOUNT] = uid
    return arguments


def client_options(
    file: Path | None = None, *, has_password: bool = False, with_tls: bool = True
) -> dict[str, Any]:
    """Return the section [client] of ~/.my.cnf as arguments of the driver.

    That is user and password, and with_tls how to verify the server.  MYSQL_PWD comes
    before the file's password, as it does for MySQL's clients.
    has_password: there is another one, so none is looked for.  Raise UsageError, which
    holds none of it, for a password that is not UTF-8.
    """
    parser = configparser.ConfigParser(
        allow_no_value=True, interpolation=None, strict=False, delimiters=("=",)
    )
    wanted = ("user",) if has_password else ("user", "password")
    try:
        path = file or Path.home() / ".my.cnf"
        text = path.read_text("utf-8", errors="surrogateescape")
        lines = (line for line in text.splitlines() if not line.startswith("!"))
        parser.read_string("\n".join(lines))
    except (OSError, RuntimeError, configparser.Error):
        parser.clear()
    section = dict(parser["client"]) if parser.has_section("client") else {}
    options = {
        name.replace("_", "-"): None if value is None else _unquoted(value)
        for name, value in section.items()
    }
    found: dict[str, Any] = {
        name: value for name in wanted if (value := options.get(name)) is not None
    }
    own = None if has_password else variable("MYSQL_PWD")
    if own is not None:
        found["password"] = own
    elif not _is_text(found.get("password", "")):
        raise UsageError(
            f"the password in {file or '~/.my.cnf'} is not UTF-8",
            id=ErrorId.SECRET_NOT_UTF8,
            hint="Store it as UTF-8.",
        )
    return found | _verification(options) if with_tls else found


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
