r"""Reads the option files of MySQL's and MariaDB's clients, as the clients read them.

They look like INI files and are none: a line is an option by itself, indented or not;
"#" ends a line outside of quotes; "\s" is a blank; groups are found in any case; a
file includes others.  Sources: MySQL 8.4 Reference Manual, 6.2.2.2 "Using Option
Files"; MariaDB's "Configuring MariaDB with Option Files"; mysys/my_default.c, which
both share.  my_print_defaults would print the same, but not which file an option is
in, and who may read that file, and write it, matters.  So no program is run.
"""

from __future__ import annotations

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
        with plain.opened(path) as file:
            status = os.fstat(file.fileno())
            require_own(path, status)
            content = plain.content(file, plain.TEXT_MAX)
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
                group = _group(line, place)
            elif group is None:
                raise place.invalid(
                    "is an option before the first group",
                    "Write the group above it, e.g. [client].",
                )
            elif group in self._groups:
                self.found.append(_option(line, group, place))

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
            included = _files_in(Path(named), place, is_needed=line.startswith(b"!"))
        else:
            included = [Path(_at_home(named, place))]
        for path in included:
            try:
                self.add(path, depth + 1)
            except _PASSED_OVER:
                continue
            except OSError as error:
                raise place.invalid(
                    f"includes {_shown(path, 'file')}, which cannot be read:"
                    f" {error.strerror}",
                    "Remove it, or put a regular file there.",
                ) from None


def _files_in(folder: Path, place: Place, *, is_needed: bool) -> list[Path]:
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
            f"includes {_shown(folder, 'folder')}, which cannot be read:"
            f" {error.strerror}",
            "Name a folder that is there, without ~, or remove the line.",
        ) from None
    return [folder / os.fsdecode(name) for name in names if name.endswith(b".cnf")]


def _at_home(named: str, place: Place) -> str:
    try:
        return expanded(named)
    except LookupError:
        raise place.invalid(
            "includes a file in the home of a user who does not exist",
            "Name a file that is there, or remove the line.",
        ) from None


def _shown(path: Path, what: str) -> str:
    """Return what an error says a line includes: no name that no file has.

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


def _group(line: bytes, place: Place) -> str:
    name, end, _ = line[1:].partition(b"]")
    if not end:
        raise place.invalid("has no ] after the [", "Write it like [client].")
    return _text(name.rstrip(_BLANKS).lower())


def _option(line: bytes, group: str, place: Place) -> Option:
    matched = _CODE.match(line)
    name, equals, value = (matched[0] if matched else b"").partition(b"=")
    if not _NAME.fullmatch(name := name.rstrip(_BLANKS)):
        raise place.invalid(
            "is no option", "Write it like user=NAME, with no - before the name."
        )
    return Option(group, _text(name), _value(value) if equals else None, place)


def _value(written: bytes) -> str:
    value = written.strip(_BLANKS)
    if len(value) > 1 and value[0] in b"\"'" and value[0] == value[-1]:
        value = value[1:-1]
    return _text(_ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[0]), value))


def _text(found: bytes) -> str:
    return found.decode("utf-8", "surrogateescape")
