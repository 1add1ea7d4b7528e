"""Option files of MySQL's and MariaDB's clients, beside MariaDB's own reader."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from dbcheck.base.errors import UsageError
from dbcheck.engines.mysql.optionfile import Client, pick_known_options, read_options
from tests.fuzz.script import Script, edit_bytes
from tests.fuzz.target import Target
from tests.kit.memory import scratch
from tests.kit.option_files import GROUPS, as_arguments, printed_by_mariadb

_GROUPS = (b"[client]", b"[Client ] x", b"[client-server]", b"[x]", b"[ client]", b"[]")
_NAMES = (b"user", b"password", b"x-y", b"loose_Z", b"skip-ssl", b"pass", b"quick")
_VALUES = (
    *(b"", b" ", b"\t", b"\xa0", b"\x0b", b"\x0c", b"\x85", b"\xe2\x80\xa8"),
    *(b'"', b"'", b"\\", b"#", b";", b"=", b"[", b"]", b"!", b":", b"%", b"\xff"),
    *(b"\\s", b"\\n", b"\\t", b'\\"', b"\\'", b"\\\\", b"\\q", b"a", b"secret"),
)
_EQUALS = (b"=", b" = ", b"=\t", b"\xa0=")
_BLANKS = (b"", b"", b" ", b"\t")
_INCLUDES = (b"!include ", b"!includedir ", b" !  include\t", b"!x ")
_INCLUDED = (b"a.cnf", b"b.cnf", b"./a.cnf \r", b"d", b"d/", b"none", b"d/c.d.cnf")
_OF_NEWER = re.compile(rb"^\s*\?", re.MULTILINE)  # MariaDB 11.4.10
MISSING = "MariaDB's reader is not installed"
_FILES = ("a.cnf", "b.cnf", "d/a.cnf", "d/c.d.cnf")
# Here dbcheck refuses what the clients read in a way that nobody means: a name that no
# option has, line ends that are none to them, files that include each other, an
# included file that ends in an error.
_STRICTER = (
    *("is no option", "includes too much", "has no ]", "before the first group"),
    *("includes no file", "cannot be read", "has a #", "zero byte", "longer than"),
    "carriage return",
)


def option_file(data: bytes) -> None:
    """Options, and nothing else but a UsageError that does not repeat a value."""
    script = Script(data)
    with scratch() as folder:
        (folder / "d").mkdir()
        for name in _FILES:
            (folder / name).write_bytes(drawn(script, 2))
        file = folder / "x.cnf"
        text = drawn(script, 12)
        if not script.below(4):
            text = edit_bytes(script, text) + b"\n"
        file.write_bytes(text)
        with contextlib.chdir(folder):
            require_equal(file)


def drawn(script: Script, lines: int) -> bytes:
    """Return the text of an option file."""
    found = [script.choice(_GROUPS)]
    for _ in range(script.below(lines + 1)):
        kind = script.below(8)
        if kind == 0:
            found.append(script.choice(_GROUPS))
        elif kind == 1:
            found.append(script.choice(_INCLUDES) + script.choice(_INCLUDED))
        else:
            line = script.choice(_BLANKS) + script.choice(_NAMES)
            if script.below(8):
                line += script.choice(_EQUALS)
                line += b"".join(script.choice(_VALUES) for _ in range(script.below(9)))
            found.append(line)
    # MariaDB's clients lose the last letter of a name that ends the file.
    return b"\n".join((*found, b""))


def require_equal(file: Path) -> None:
    try:
        found = as_arguments(options := read_options(file, GROUPS))
    except UsageError as refused:
        assert "secret" not in f"{refused} {refused.hint}"
        is_stricter = any(words in str(refused) for words in _STRICTER)
        assert is_stricter or printed(file) is None, refused
        return
    if not _OF_NEWER.search(file.read_bytes()):
        assert printed(file) in (found, MISSING)
    for client in Client:
        with contextlib.suppress(UsageError):
            pick_known_options(options, client)


def printed(file: Path) -> str | None:
    try:
        return printed_by_mariadb(file)
    except LookupError:
        return MISSING


def option_files() -> Iterator[bytes]:
    yield b""
    for step in range(12):
        yield bytes((step * 37 + place * (step + 3)) % 256 for place in range(300))


TARGETS = (Target("mysql-option-file", option_file, option_files),)
