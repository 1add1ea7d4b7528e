r"""Reads the option files of MySQL's and MariaDB's clients, as the clients read them.

They look like INI files and are none: a line is an option by itself, indented or not;
"#" ends a line outside of quotes; "\s" is a blank; groups are found in any case; a
file includes others.  Sources: MySQL 8.4 Reference Manual, 6.2.2.2 "Using Option
Files"; MariaDB's "Configuring MariaDB with Option Files"; mysys/my_default.c, which
both share.  my_print_defaults would print the same, but not the file that an option is
in, and it matters who may read and write that file.  So no program is run.

MySQL's clients and MariaDB's read the same files, but different groups in them, and
MariaDB's take names in any case and shortened.  Before the connection the server's
product is not known, so the URL's scheme decides: mariadb:// or mysql://.  Sources: as
above; MySQL 8.4 Reference Manual, 6.2.2.4 "Program Option Modifiers";
mysys/my_getopt.c.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import shlex
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base import plain
from dbcheck.base.access import who_may_write
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded, is_ours

LINE_MAX = 4093  # bytes; the clients take what is beyond it for another line
DEPTH_MAX = 10  # of files that include each other; the clients ignore deeper ones
FILES_MAX = 1000  # that one file includes; the clients know no limit
_BLANKS = b" \t\n\v\f\r\xa0"  # in latin1, the character set that the clients assume
_COMMENTS = b"#;"
_DIRECTIVES = b"!?"  # the second is MariaDB's, from 11.4.10 and 11.8.6 on
_INCLUDE = re.compile(rb"(includedir|include)(?:[ \t\v\f\r\xa0](.*))?", re.DOTALL)
# All of a line up to a "#" that no quotes enclose.
_CODE = re.compile(
    rb"""(?:[^'"#]|"(?:[^"\\]|\\.?)*"?|'(?:[^'\\]|\\.?)*'?)*""", re.DOTALL
)
_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_-]*")
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED = {
    **{b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"s": b" "},
    **{b'"': b'"', b"'": b"'", b"\\": b"\\"},
}
# What the clients pass over, and a folder.
_PASSED_OVER = FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError
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


@dataclass(frozen=True, slots=True)
class Place:
    """A line of an option file, and the status that the file had when it was read."""

    path: Path
    line: int
    status: os.stat_result

    def invalid(self, why: str, hint: str) -> UsageError:
        """Return the error for this line; *why* begins like "has no name"."""
        return UsageError(
            f"line {self.line} of {self.path} {why}",
            id=ErrorId.OPTION_FILE_INVALID,
            hint=hint,
        )


@dataclass(frozen=True, slots=True)
class Option:
    """One option as it stands in a file.

    group: in lower case.  value: None if there is no "="; bytes that are not UTF-8 are
    as surrogateescape has them.
    """

    group: str
    name: str
    value: str | None
    place: Place


def read_options(path: Path, groups: Iterable[str]) -> list[Option]:
    """Return the options in *groups* of a file and all it includes, in their order.

    Of two of one name the clients take the last.  Raise OSError if the file cannot be
    opened; UsageError for what the clients cannot read either, and if another user
    decides what any of the files holds.  No error repeats a line: it may hold a
    password.
    """
    reading = _Reading(frozenset(group.lower() for group in groups))
    reading.add(path, 0)
    return reading.found


def require_own(path: Path, found: os.stat_result) -> None:
    """Raise UsageError if another user decides what a file or folder holds.

    MySQL's and MariaDB's clients warn of a file that any user may write, and ignore it
    (mysys/my_default.c).
    """
    place = shlex.quote(str(path))
    is_device = not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
    # Nobody can replace a file of ours there, and one of another user is refused.
    is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if not is_ours(found):
        what = f"{path} belongs to another user (uid {found.st_uid})"
        hint = f"Run: chown {os.geteuid()} {place}"
    elif not (is_device or is_sticky) and (who := who_may_write(path, found)):
        what, hint = f"{who[0]} may write {path}", f"Run: {who[1]} {place}"
    else:
        return
    raise UsageError(
        f"{what}, which says how to log in to the server",
        id=ErrorId.SECRET_FILE_NOT_PRIVATE,
        hint=hint,
    )


class _Reading:
    """A file and all it includes."""

    def __init__(self, groups: frozenset[str]) -> None:
        self.found: list[Option] = []
        self._groups = groups
        self._files = 0

    def add(self, path: Path, depth: int) -> None:
        """Add the options in *path*; raise as read_options()."""
        self._files += 1
        with plain.open_regular(path) as file:
            status = os.fstat(file.fileno())
            require_own(path, status)
            content = plain.read_rest(file, plain.TEXT_MAX)
        group: str | None = None
        for number, line in enumerate(content.split(b"\n"), 1):
            place = Place(path, number, status)
            _require_line(line, place)
            line = line.strip(_BLANKS)
            if not line or line[0] in _COMMENTS:
                continue
            if line[0] in _DIRECTIVES:
                self._include(line, place, depth)
            elif line.startswith(b"["):
                group = _parse_group(line, place)
            elif group is None:
                raise place.invalid(
                    "is an option before the first group",
                    "Write the group above it, e.g. [client].",
                )
            elif group in self._groups:
                self.found.append(_parse_option(line, group, place))

    def _include(self, line: bytes, place: Place, depth: int) -> None:
        """Add what a line includes; other directives count for nothing."""
        if (matched := _INCLUDE.fullmatch(line[1:].lstrip(_BLANKS))) is None:
            return
        if depth == DEPTH_MAX or self._files > FILES_MAX:
            raise place.invalid(
                f"includes too much: {DEPTH_MAX} files may include each other, and"
                f" {FILES_MAX} may be included in all",
                "Have no file include itself.",
            )
        named = os.fsdecode((matched[2] or b"").strip(_BLANKS))
        if not named:
            raise place.invalid(
                "includes no file: a name is missing", "Write it like !include FILE."
            )
        if "#" in named:
            raise place.invalid(
                "has a #, which is a part of the name to MariaDB's clients, and begins"
                " a comment for MySQL's",
                "Write the comment into a line of its own, or rename the file.",
            )
        if matched[1] == b"includedir":
            included = _list_option_files(
                Path(named), place, is_needed=line.startswith(b"!")
            )
        else:
            included = [Path(_expand_home(named, place))]
        for path in included:
            try:
                self.add(path, depth + 1)
            except _PASSED_OVER:
                continue
            except OSError as error:
                raise place.invalid(
                    f"includes {_describe_included_path(path, 'file')}, which cannot be"
                    f" read: {error.strerror}",
                    "Remove it, or put a regular file there.",
                ) from None


def _list_option_files(folder: Path, place: Place, *, is_needed: bool) -> list[Path]:
    """Return the option files in a folder, as the clients sort them: by their bytes.

    is_needed: else it is passed over if this user may not read it.
    """
    try:
        require_own(folder, os.stat(folder))
        names = sorted(os.listdir(os.fsencode(folder)))
    except OSError as error:
        if isinstance(error, PermissionError) and not is_needed:
            return []
        raise place.invalid(
            f"includes {_describe_included_path(folder, 'folder')}, which cannot be"
            f" read: {error.strerror}",
            "Name a folder that is there, without ~, or remove the line.",
        ) from None
    return [folder / os.fsdecode(name) for name in names if name.endswith(b".cnf")]


def _expand_home(named: str, place: Place) -> str:
    try:
        return expanded(named)
    except LookupError:
        raise place.invalid(
            "includes a file in the home of a user who does not exist",
            "Name a file that is there, or remove the line.",
        ) from None


def _describe_included_path(path: Path, what: str) -> str:
    """Describe an included path for an error, without a name that no file has.

    Where the end of a line is missing, the next one is a part of it: a password.
    """
    return str(path) if os.path.lexists(path) else f"a {what}"


def _require_line(line: bytes, place: Place) -> None:
    """Raise UsageError for a line that the clients would take for another one."""
    if b"\0" in line:
        raise place.invalid(
            "holds a zero byte", "Save the file as UTF-8, and not as UTF-16."
        )
    if b"\r" in line.strip(_BLANKS):
        raise place.invalid(
            "holds a carriage return, and MySQL's clients end no line there",
            "Save the file with the line ends of Unix, or write \\r in a value.",
        )
    if len(line) > LINE_MAX:
        raise place.invalid(
            f"is longer than {LINE_MAX} bytes",
            "Shorten it: MySQL's clients cut it there.",
        )
    if place.line == 1 and line.startswith(b"\xef\xbb\xbf"):
        raise place.invalid(
            "begins with a byte order mark, which MySQL's clients cannot read",
            "Save the file as UTF-8 without one.",
        )


def _parse_group(line: bytes, place: Place) -> str:
    name, end, _ = line[1:].partition(b"]")
    if not end:
        raise place.invalid("has no ] after the [", "Write it like [client].")
    return _decode_text(name.rstrip(_BLANKS).lower())


def _parse_option(line: bytes, group: str, place: Place) -> Option:
    matched = _CODE.match(line)
    name, equals, value = (matched[0] if matched else b"").partition(b"=")
    if not _NAME.fullmatch(name := name.rstrip(_BLANKS)):
        raise place.invalid(
            "is no option", "Write it like user=NAME, with no - before the name."
        )
    return Option(
        group, _decode_text(name), _parse_value(value) if equals else None, place
    )


def _parse_value(written: bytes) -> str:
    value = written.strip(_BLANKS)
    if len(value) > 1 and value[0] in b"\"'" and value[0] == value[-1]:
        value = value[1:-1]
    return _decode_text(_ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[0]), value))


def _decode_text(found: bytes) -> str:
    return found.decode("utf-8", "surrogateescape")


class Client(enum.Enum):
    """The product whose client programs an option file is read for."""

    MYSQL = "mysql"
    MARIADB = "mariadb"

    @classmethod
    def of(cls, scheme: str) -> Client:
        """Return the product of a URL; *scheme* is like "mariadb+mysqlconnector"."""
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


def pick_known_options(options: Iterable[Option], client: Client) -> dict[str, Option]:
    """Return those that dbcheck knows by their whole names; the last of a name counts.

    Raise UsageError for what the clients refuse, or ignore although it must be meant.
    """
    found = (resolve_option(option, client) for option in options)
    return {option.name: option for option in found if option is not None}


def resolve_option(option: Option, client: Client) -> Option | None:
    """Return *option* with its whole name and its value, None if it is another one."""
    name, modifier = option.name.replace("_", "-"), ""
    if client is Client.MARIADB:
        name = name.lower()
    while (whole := _complete_name(name, option, client)) is None:
        if (modified := _MODIFIER.match(name)) is None:
            return None
        modifier, name = modified[1], name[modified.end() :]
    value = option.value
    if modifier in _SWITCHING:
        value = _apply_modifier(whole, modifier, value)
    if value is None and whole not in _WITHOUT_VALUE:
        raise option.place.invalid(
            f"has {whole} without a value", f"Write it like {whole}=VALUE."
        )
    return dataclasses.replace(option, name=whole, value=value)


def _apply_modifier(whole: str, modifier: str, value: str | None) -> str | None:
    """Return the value that e.g. skip-NAME gives; None if it makes no sense."""
    if whole == _SWITCH:
        return "1" if (modifier == _ENABLE) != (value == "0") else "0"
    return "" if whole == "password" else None


def _complete_name(name: str, option: Option, client: Client) -> str | None:
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
    """Return True if an option is on; alone, it is.  Raise UsageError if it is neither.

    MariaDB's clients warn of that, and take it for off (10.11).
    """
    value = (option.value if option.value is not None else "1").lower()
    if value in (*_ON, *_OFF):
        return value in _ON
    raise option.place.invalid(
        f"gives {option.name} a value that is neither on nor off",
        f"Write {option.name}=1, or {option.name}=0.",
    )
