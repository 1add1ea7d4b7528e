"""Gives options in an option file the meaning that MySQL's and MariaDB's clients do.

Both read the same files in the same way, but other groups of them, and MariaDB's take
names in any case and shortened.  Nobody knows before the connection whose server it
is, so the URL's scheme decides: mariadb:// is MariaDB's, mysql:// is MySQL's.  Sources:
MySQL 8.4 Reference Manual, 6.2.2.2 "Using Option Files", and 6.2.2.4 "Program Option
Modifiers"; MariaDB's "Configuring MariaDB with Option Files"; mysys/my_getopt.c.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
from collections.abc import Iterable

from dbcheck.engines.mysql.optionfile import Option

# How many characters of a name are enough for MariaDB's client (`mariadb --help`,
# 10.11); ssl-mode is MySQL's alone.
_ENOUGH = {
    **{"user": 2, "password": 3, "host": 2, "port": 2, "socket": 2},
    **{"ssl-ca": 6, "ssl-cert": 6, "ssl-key": 5, "ssl-verify-server-cert": 5},
    "ssl-mode": 8,
}
_OTHER = "ssl"  # an option of its own, and the beginning of ours
_SWITCH = "ssl-verify-server-cert"
_WITHOUT_VALUE = ("password", _SWITCH)
# skip-NAME is NAME=0, and skip-NAME=0 is NAME=1; a client that does not know a
# loose-NAME ignores it.
_MODIFIER = re.compile("(loose|skip|disable|enable)-")
_ENABLE = "enable"
_SWITCHING = ("skip", "disable", _ENABLE)
_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_ON = ("1", "on", "true")
_OFF = ("0", "off", "false")


class Client(enum.Enum):
    """The product whose client programs an option file is read for."""

    MYSQL = "mysql"
    MARIADB = "mariadb"

    @classmethod
    def of(cls, scheme: str) -> Client:
        """Return whose URL it is; *scheme* is like "mariadb+mysqlconnector"."""
        return cls(scheme.partition("+")[0])

    def groups(self) -> tuple[str, ...]:
        """Return the groups that all of its clients read.

        Each of them is also read with the suffix at its end that MYSQL_GROUP_SUFFIX
        names; for MariaDB MARIADB_GROUP_SUFFIX comes before that, even if it is empty.
        """
        own, names = ["client"], ["MYSQL_GROUP_SUFFIX"]
        if self is Client.MARIADB:
            own += ["client-server", "client-mariadb"]
            names.insert(0, "MARIADB_GROUP_SUFFIX")
        suffix = next((os.environ[name] for name in names if name in os.environ), "")
        return (*own, *(group + suffix for group in own))


def known_options(options: Iterable[Option], client: Client) -> dict[str, Option]:
    """Return those that dbcheck knows by their whole names; the last of a name counts.

    Raise UsageError for what the clients refuse, or ignore although it must be meant.
    """
    found = (known_option(option, client) for option in options)
    return {option.name: option for option in found if option is not None}


def known_option(option: Option, client: Client) -> Option | None:
    """Return *option* with its whole name and its value, None if it is another one."""
    name, modifier = option.name.replace("_", "-"), ""
    if client is Client.MARIADB:
        name = name.lower()
    while (whole := _whole_name(name, option, client)) is None:
        if (modified := _MODIFIER.match(name)) is None:
            return None
        modifier, name = modified[1], name[modified.end() :]
    value = option.value
    if modifier in _SWITCHING:
        value = _switched(whole, modifier, value)
    if value is None and whole not in _WITHOUT_VALUE:
        raise option.place.invalid(
            f"has {whole} without a value", f"Write it like {whole}=VALUE."
        )
    return dataclasses.replace(option, name=whole, value=value)


def _switched(whole: str, modifier: str, value: str | None) -> str | None:
    """Return the value that e.g. skip-NAME gives; None if it makes no sense."""
    if whole == _SWITCH:
        return "1" if (modifier == _ENABLE) != (value == "0") else "0"
    return "" if whole == "password" else None


def _whole_name(name: str, option: Option, client: Client) -> str | None:
    """Return the option's whole name, None if it is none of ours.

    Raise UsageError for one of ours that the clients do not take so: MySQL's ignore a
    shortened name, or one in another case; MariaDB's refuse one that may be two.
    """
    lower = name.lower()
    meant = [whole for whole in _ENOUGH if whole.startswith(lower)]
    if name in _ENOUGH or not meant or lower == _OTHER:
        return name if name in _ENOUGH else None
    if client is Client.MARIADB and len(name) >= _ENOUGH[meant[0]]:
        return meant[0]
    raise option.place.invalid(
        f"has {option.name}, which is not the whole name of an option",
        f"Write {meant[0]} in its place, if that is meant.",
    )


def ssl_mode(option: Option) -> str:
    """Return the ssl-mode, e.g. "VERIFY_CA"; its beginning is enough, in any case.

    Raise UsageError if it is none.
    """
    given = (option.value or "").upper()
    meant = [mode for mode in _MODES if mode.startswith(given)]
    if given in _MODES:
        return given
    if not given or len(meant) != 1:
        raise option.place.invalid(
            "gives ssl-mode a value that is none of its modes",
            f"Write one of {', '.join(_MODES)}.",
        )
    return meant[0]


def is_on(option: Option) -> bool:
    """Return whether an option is on; alone, it is.  Raise UsageError if it is neither.

    MariaDB's clients warn of that, and take it for off (10.11).
    """
    value = (option.value if option.value is not None else "1").lower()
    if value in (*_ON, *_OFF):
        return value in _ON
    raise option.place.invalid(
        f"gives {option.name} a value that is neither on nor off",
        f"Write {option.name}=1, or {option.name}=0.",
    )
