"""What the driver is told: the URL's options, and what MySQL's own clients take."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import Any

import sqlalchemy.engine
import sqlalchemy.util

from dbcheck.errors import UsageError

# Those of the driver's switches that SQLAlchemy leaves as text.
_SWITCHES = ("ssl_disabled", "ssl_verify_identity")


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


def client_options(file: Path | None = None) -> dict[str, str]:
    """Return user and password of the section [client] in ~/.my.cnf, if there.

    MYSQL_PWD comes before the file's password, as it does for MySQL's clients.
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
    found: dict[str, str] = {}
    for name in ("user", "password"):
        value = parser.get("client", name, fallback=None)
        if value is not None:
            found[name] = _unquoted(value)
    if "MYSQL_PWD" in os.environ:
        found["password"] = os.environ["MYSQL_PWD"]
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
