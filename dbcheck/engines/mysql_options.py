"""What the driver is told: the URL's options, and what MySQL's own clients take."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy.engine
import sqlalchemy.util

from dbcheck.errors import UsageError

# Those of the driver's switches that SQLAlchemy leaves as text.
_SWITCHES = ("ssl_disabled", "ssl_verify_identity")
# How an option file says yes and no to ssl-verify-server-cert.
_ON = ("1", "on", "true")
_OFF = ("0", "off", "false")


def url_options(url: sqlalchemy.engine.URL) -> dict[str, Any]:
    """Return the driver's arguments for *url*, its options among them.

    Raise UsageError if an option that is on or off is neither.
    """
    try:
        arguments = dict(url.get_dialect()().create_connect_args(url)[1])
        for name in _SWITCHES:
            sqlalchemy.util.coerce_kw_type(arguments, name, bool)
    except ValueError as error:
        raise UsageError(
            f"an option of the target's URL cannot be used: {error}",
            hint="Write it like ssl_disabled=true or ssl_disabled=false.",
        ) from None
    return arguments


def client_options(
    file: Path | None = None, *, with_tls: bool = True
) -> dict[str, Any]:
    """Return what the section [client] of ~/.my.cnf says, as arguments of the driver.

    That is user and password, and with_tls how to verify the server.  MYSQL_PWD comes
    before the file's password, as it does for MySQL's clients.
    """
    parser = configparser.ConfigParser(
        allow_no_value=True, interpolation=None, strict=False, delimiters=("=",)
    )
    try:
        text = (file or Path.home() / ".my.cnf").read_text("utf-8")
        lines = (line for line in text.splitlines() if not line.startswith("!"))
        parser.read_string("\n".join(lines))
    except (OSError, RuntimeError, UnicodeDecodeError, configparser.Error):
        parser.clear()
    section = dict(parser["client"]) if parser.has_section("client") else {}
    said = {
        name.replace("_", "-"): None if value is None else _unquoted(value)
        for name, value in section.items()
    }
    found: dict[str, Any] = {
        name: value
        for name in ("user", "password")
        if (value := said.get(name)) is not None
    }
    if "MYSQL_PWD" in os.environ:
        found["password"] = os.environ["MYSQL_PWD"]
    return found | _verification(said) if with_tls else found


def _verification(said: Mapping[str, str | None]) -> dict[str, Any]:
    """Return how MySQL's and MariaDB's clients would verify the server over TLS.

    ssl-mode is MySQL's, ssl-verify-server-cert MariaDB's, which means the name as well.
    """
    found: dict[str, Any] = {}
    if authority := said.get("ssl-ca"):
        found["ssl_ca"] = authority
    mode = (said.get("ssl-mode") or "").upper()
    if mode in ("VERIFY_CA", "VERIFY_IDENTITY"):
        found["ssl_verify_cert"] = True
        found["ssl_verify_identity"] = mode == "VERIFY_IDENTITY"
    if "ssl-verify-server-cert" in said:
        value = said["ssl-verify-server-cert"]
        if value is None or value.lower() in _ON:
            found["ssl_verify_cert"] = found["ssl_verify_identity"] = True
        elif value.lower() in _OFF:
            found.setdefault("ssl_verify_cert", False)
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
