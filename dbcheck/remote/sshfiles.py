"""The files of a configuration of OpenSSH: their lines, and their owners.

A user who may write such a file decides which programs run and which host is reached.
So each file is checked before ssh(1) reads it, also one that is included for other
hosts alone.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base import plain, processes
from dbcheck.base.access import find_change_by_others

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")  # ssh_config(5), FILES
_SYSTEM_FOLDER = SYSTEM_CONFIG.parent
_INCLUDE_DEPTH_MAX = 16  # as OpenSSH: READCONF_MAX_DEPTH in readconf.c
# strdelim() in misc.c of OpenSSH 9.2: the keyword may stand in quotes; if it does not,
# one "=" may stand between it and the value.
_LINE = re.compile(r'(?:"([^\s"]+)"[ \t]*|([^\s"=]+)[ \t]*(?:=[ \t]*)?)(.*)', re.DOTALL)
_BLANKS = " \t\r\n\f"
# What may stand before the value of ProxyCommand and ProxyJump, in any number.
BEFORE_VALUE = " \t\r\n="
# A token of ssh_config(5), TOKENS, or a variable of the environment.
_TOKEN = re.compile(r"%.|\$\{(\w+)\}")
# What glob(7) has beyond Python's glob: a backslash, [^a], classes as [[:digit:]].
_NOT_IN_PYTHON = re.compile(r"\\|\[[\^:.=]|\[[^]]*\[[:.=]")
# What _make_glob() replaces: a backslash and a character, or a class in brackets.
_PARTS_OF_GLOB = re.compile(
    r"\\(.)|\[[!^]?\]?(?:\[([:.=]).*?\2\]|\\.|[^]])*\]", re.DOTALL
)
CORRECT = "Correct that file, until `ssh HOST` logs in."


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names the file, and its line.

    hint: what to do about it.
    """

    def __init__(self, text: str, hint: str = CORRECT) -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Line:
    """One line with a setting: "Keyword value".

    keyword: in lower case.
    value:   as the line has it, without blanks at its ends.
    """

    path: Path
    number: int
    keyword: str
    value: str

    @property
    def place(self) -> str:
        """The file and the number of the line, for errors."""
        return f"{self.path}, line {self.number}"

    def words(self) -> list[str]:
        """Return the words of the value without quotes and a comment.

        Raise ConfigError for a quote that does not end.  The rules are those of
        argv_split() in misc.c of OpenSSH 9.2.
        """
        words: list[str] = []
        text, at, is_inside = self.value, 0, False
        quote = ""
        while at < len(text):
            char, after = text[at], text[at + 1 : at + 2]
            at += 1
            if not quote and char in " \t":
                is_inside = False
                continue
            if not is_inside:
                if char == "#":
                    break
                words.append("")
                is_inside = True
            if char == "\\" and after and (after in "'\"\\" or after + quote == " "):
                words[-1] += after
                at += 1
            elif char == quote:
                quote = ""
            elif not quote and char in "'\"":
                quote = char
            else:
                words[-1] += char
        if quote:
            raise ConfigError(f"{self.place}: a quotation mark has no second one")
        return words


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file that have a setting.

    Raise OSError if the file cannot be read, ConfigError if another user may change it:
    it names programs.  ssh(1), too, refuses most of such files when it opens them
    (readconf.c of OpenSSH 9.9, read_config_file_depth, SSHCONF_CHECKPERM).
    """
    with plain.open_regular(path) as file:
        if path.is_file() and (change := find_change_by_others(path)):
            raise ConfigError(change.how, f"Run: {change.end}")
        text = plain.read_rest(file, plain.TEXT_MAX).decode(errors="surrogateescape")
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(_BLANKS)
        if not line or line.startswith("#"):
            continue
        if "\0" in line:  # ssh(1) ends the line there, and no file has such a name
            raise ConfigError(f"{path}, line {number}: it holds a zero byte")
        word, value = split_keyword(line)
        if not (keyword := word.lower()):
            raise ConfigError(f"{path}, line {number}: it begins with no keyword")
        if not value:
            # The word is not repeated: it may be a secret, or a megabyte.
            raise ConfigError(f"{path}, line {number}: its keyword has no value")
        lines.append(Line(path, number, keyword, value))
    return lines


def split_keyword(line: str) -> tuple[str, str]:
    """Return a line's keyword and its value; "" if it begins with no keyword."""
    parts = _LINE.fullmatch(line.strip(_BLANKS))
    return (parts[1] or parts[2], parts[3]) if parts else ("", "")


def read_included(line: Line, folder: Path, depth: int) -> Iterator[list[Line]]:
    """Yield the lines of each file that an Include names; see read_lines() for errors.

    folder: where a relative name begins.  depth: how many Includes led to the file that
    has this one.  A link that leads nowhere and a folder hold nothing, as for ssh(1).
    Raise ConfigError also for a name that releases of ssh(1) take for different files,
    or whose pattern Python reads otherwise than ssh(1).
    """
    if depth >= _INCLUDE_DEPTH_MAX:
        raise ConfigError(
            f"{line.place}: more than {_INCLUDE_DEPTH_MAX} files include one another"
        )
    for word in line.words():
        if _TOKEN.search(word) or _NOT_IN_PYTHON.search(word):
            raise undecidable_error(line, f"Include {word}")
        yield from map(_read_lines_if_any, _find_files(word, folder))


def undecidable_error(line: Line, what: str) -> ConfigError:
    """Return the error for what cannot be decided without ssh(1)."""
    return ConfigError(
        f"{line.place}: only ssh itself understands {what}",
        "Install the OpenSSH client, and run dbcheck with HOME as the password file"
        " has it; or remove that line.",
    )


def _find_files(pattern: str, folder: Path) -> list[Path]:
    """Return the files that match a pattern of Python's glob, in ssh's order."""
    if pattern.startswith("~"):  # glob(3) leaves the ~ of a user who does not exist
        name = os.path.expanduser(pattern)
    else:
        name = str(folder / pattern)
    return [Path(match) for match in sorted(glob.glob(name))]


def _read_lines_if_any(path: Path) -> list[Line]:
    try:
        return read_lines(path)
    except (FileNotFoundError, IsADirectoryError):
        return []


def require_unchangeable_by_others(path: Path, folder: Path) -> None:
    """Raise ConfigError if another user may change that file or one that it includes.

    folder: where a relative name of an Include begins.  For other errors see
    read_lines().
    """
    files = [path]
    for file in files:  # the list grows while the loop walks it
        for line in read_lines(file) if file == path else _read_lines_if_any(file):
            if line.keyword == "include":
                patterns = map(_make_glob, line.words())
                included = [
                    match
                    for pattern in patterns
                    for match in _find_files(pattern, folder)
                ]
                files += [
                    match for match in dict.fromkeys(included) if match not in files
                ]


def find_include_folder(path: Path) -> Path:
    """Return the folder of relative names in an Include of *path* (ssh_config(5))."""
    return _SYSTEM_FOLDER if path == SYSTEM_CONFIG else Path("~/.ssh").expanduser()


def _make_glob(word: str) -> str:
    """Return a pattern of Python's glob for all that a name in Include may stand for.

    OpenSSH expands tokens in such a name since 10.0.  In earlier releases they stand
    for themselves, which the pattern matches as well.
    """

    def expand_token(token: re.Match[str]) -> str:
        if token[1]:
            return processes.make_environment().get(token[1], "*")
        return {"%d": os.path.expanduser("~")}.get(token[0], "*")

    def convert_part(part: re.Match[str]) -> str:
        return glob.escape(part[1]) if part[1] else "?"

    return _PARTS_OF_GLOB.sub(convert_part, _TOKEN.sub(expand_token, word))
