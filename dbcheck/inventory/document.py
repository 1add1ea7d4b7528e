"""YAML files with the line of each value, as Ansible reads them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.error import MarkedYAMLError, YAMLWarning

from dbcheck.errors import UsageError
from dbcheck.inventory.trusted import require_trusted

VAULT = b"$ANSIBLE_VAULT"
# Above any inventory of people.  An alias (*name) repeats what it stands for, so a
# short file may mean more values than memory holds, or endlessly many.
VALUES_MAX = 300_000
DEPTH_MAX = 100
BITS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Value:
    """A value, the file it stands in, and the line, 0 if that is not known."""

    value: Any
    file: str
    line: int = 0

    @property
    def where(self) -> str:
        """Return file and line as people write them, e.g. "hosts.yml:12"."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Vaulted(Exception):
    """A file is encrypted as a whole; Ansible's own programs can read it."""


def read(path: Path) -> Value:
    """Return what *path* holds; raise UsageError with the line, or Vaulted.

    YAML 1.1, which is Ansible's: `yes` is true, `010` is 8.  A key that is there
    twice is refused, and a file that anybody may write.
    """
    require_trusted(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if content.startswith(VAULT):
        raise Vaulted(str(path))
    yaml = YAML(typ="rt", pure=True)
    yaml.version = "1.1"
    try:
        with warnings.catch_warnings():  # of what YAML 1.1 allows and 1.2 does not
            warnings.simplefilter("ignore", YAMLWarning)
            found = yaml.load(content.decode())
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        what = str(error.problem or error.context).partition("\n")[0]
        # Of a key that is there twice the values are told too, which may be secret.
        raise UsageError(f"{path}{line}: {what.partition(' with value')[0]}") from None
    except Exception as error:  # ruamel.yaml lets out what its own code stumbles over
        what = str(error).partition("\n")[0]
        raise UsageError(f"{path} is not YAML: {what}") from None
    _require_bounded(found, str(path))
    return Value(found, str(path))


def _require_bounded(root: Any, file: str) -> None:
    """Raise UsageError if nobody could look at all that *root* means."""
    left: list[tuple[Any, int]] = [(root, 0)]
    values = 0
    while left:
        value, depth = left.pop()
        values += 1
        if depth > DEPTH_MAX or values + len(left) > VALUES_MAX:
            raise UsageError(
                f"{file} nests more than {DEPTH_MAX} values or has more than"
                f" {VALUES_MAX}",
                hint="Look for an alias (*name) inside of what it stands for.",
            )
        if isinstance(value, int) and value.bit_length() > BITS_MAX:
            raise UsageError(
                f"{file} holds a number of {value.bit_length()} bits",
                hint="Put it in quotes.",
            )
        if isinstance(value, dict):
            left += [(key, depth + 1) for key in value]
            left += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list | tuple):
            left += [(item, depth + 1) for item in value]


def entries(
    mapping: Value, what: str, *, as_names: bool = False
) -> Iterator[tuple[str, Value]]:
    """Yield the keys and values of a mapping; of nothing, none.

    as_names: a single word stands for a key without a value, as Ansible allows.
    Raise UsageError, which says *what* it is, if it is none.
    """
    found = mapping.value
    if found is None:
        return
    if as_names and isinstance(found, str):
        found = {found: None}
    if not isinstance(found, Mapping):
        raise UsageError(
            f"{mapping.where}: {what} is {plain(found)!r}, not a mapping",
            hint="Give keys and values, each on a line of its own: `key: value`.",
        )
    places = found.lc.data or {} if isinstance(found, CommentedMap) else {}
    for key, value in found.items():
        line = places[key][0] + 1 if key in places else mapping.line
        if not isinstance(key, str):
            raise UsageError(
                f"{mapping.file}:{line}: the key {key!r} of {what} is no text",
                hint="Put it in quotes.",
            )
        yield key, Value(value, mapping.file, line)


def plain(value: Any) -> Any:
    """Return *value* as Python's own types; what bears a tag stays what it is."""
    if isinstance(value, CommentedMap | dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, CommentedSeq | list):
        return [plain(item) for item in value]
    if isinstance(value, TaggedScalar):
        return value
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value
