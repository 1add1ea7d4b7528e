"""Finds sql/, workloads/, matrices/ and so on, in a checkout or an installed wheel."""

from __future__ import annotations

import importlib.resources
import tomllib
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from dbcheck.base import plain
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded
from dbcheck.rows.table import TABLES

_CHECKOUT_FOLDER = Path(__file__).resolve().parents[2]
_FOLDERS = {"workload": "workloads", "matrix": "matrices"}
_SWITCHES_FOLDER = "switches"  # a folder in inventory/
_INDENT_OF_VARIABLES = "      "  # as a host in inventory/switch.yml has them


def find_data_folder(name: str) -> Traversable:
    """Return the data folder *name*: "sql", "workloads", ...."""
    folder = _CHECKOUT_FOLDER / name
    if (_CHECKOUT_FOLDER / "setup.cfg").is_file() and folder.is_dir():
        return folder
    return importlib.resources.files("dbcheck.data").joinpath(name)


@cache
def read_sql(family: str, statement: str) -> str:
    """Return one statement of sql/FAMILY/, without its comments.

    statement: the name of its file, or VERB_TABLE.  A statement of several tables is
    in VERB_LAYOUT.sql (see TableSpec.layouts) or VERB_any.sql, with {table} in place of
    the table's name and {key} in place of the name of its unique index.
    """
    files = find_data_folder("sql").joinpath(family)
    verb, _, name = statement.rpartition("_")
    spec = next((table for table in TABLES if table.name == name), None)
    layouts, key = (spec.layouts, spec.key) if spec else ((), "")
    for file in (statement, *(f"{verb}_{layout}" for layout in (*layouts, "any"))):
        if (path := files.joinpath(f"{file}.sql")).is_file():
            break
    lines = path.read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    text = text.replace("{table}", name).replace("{key}", key)
    return text.strip().rstrip(";")


def read_described_file(kind: str, name: str) -> tuple[str, str]:
    """Return the path of the workload or matrix *name*, and its text.

    A *name* that ends in .toml is a file of the user; another one comes with dbcheck.
    Raise UsageError if it cannot be read.

    kind: "workload" or "matrix".
    """
    file_name = f"{name}.toml"
    try:
        if name.endswith(".toml"):
            path = Path(expanded(name))
            return str(path), _decode_text(plain.read_regular(path))
        where = f"{_FOLDERS[kind]}/{file_name}"
        return where, find_data_folder(_FOLDERS[kind]).joinpath(file_name).read_text(
            "utf-8"
        )
    except (OSError, ValueError, LookupError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.args[0]
        names = _list_names(find_data_folder(_FOLDERS[kind]), ".toml")
        raise UsageError(
            f"{kind} {name} cannot be read: {reason}",
            id=ErrorId.FILE_NOT_READABLE,
            hint=f"Known are {', '.join(names)}; a file of your own must end in .toml.",
        ) from None


def _decode_text(content: bytes) -> str:
    """Return *content* as text, without the byte order mark of Windows.

    Raise ValueError, which names the line, if it is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8") from None


def list_workload_names() -> list[str]:
    """Return the names of the workloads that come with dbcheck, sorted."""
    return _list_names(find_data_folder(_FOLDERS["workload"]), ".toml")


def list_matrix_names() -> list[str]:
    """Return the names of the matrices that come with dbcheck, sorted."""
    return _list_names(find_data_folder(_FOLDERS["matrix"]), ".toml")


def _list_names(folder: Traversable, suffix: str) -> list[str]:
    file_names = (entry.name for entry in folder.iterdir())
    return sorted(
        name.removesuffix(suffix) for name in file_names if name.endswith(suffix)
    )


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parse *text* as TOML; raise UsageError, naming *where*, if it is not TOML.

    A whole number must fit in 64 bits, as TOML 1.0.0 lets its readers demand; Python
    would take a longer one and then refuse to print it.
    """
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{where} is not TOML: {error}",
            id=ErrorId.FILE_NOT_TOML,
            hint="Correct that place in the file.",
        ) from None
    unchecked: list[Any] = [values]
    while unchecked:
        value = unchecked.pop()
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise UsageError(
                f"{where} is not TOML: a number of {value.bit_length()} bits",
                id=ErrorId.FILE_NOT_TOML,
                hint="Write a number that fits in 64 bits.",
            )
        if isinstance(value, dict):
            unchecked += value.values()
        elif isinstance(value, list):
            unchecked += value
    return values


def read_inventory_example() -> str:
    """Return the commented inventory that comes with dbcheck."""
    return (
        find_data_folder("inventory").joinpath("dbcheck.example.yml").read_text("utf-8")
    )


def list_switch_names() -> list[str]:
    """Return the names of the switches that come with a recipe, sorted."""
    return _list_names(find_data_folder("inventory").joinpath(_SWITCHES_FOLDER), ".yml")


def read_switch_recipe(name: str) -> str:
    """Return the recipe of a switch: comments on it, and its inventory variables."""
    file = find_data_folder("inventory").joinpath(_SWITCHES_FOLDER, f"{name}.yml")
    return file.read_text("utf-8")


def make_switch_inventory(name: str) -> str:
    """Return a commented inventory of one host that this switch cuts."""
    head = find_data_folder("inventory").joinpath("switch.yml").read_text("utf-8")
    lines = read_switch_recipe(name).splitlines()
    return head + "".join(
        f"{_INDENT_OF_VARIABLES}{line}".rstrip() + "\n" for line in lines
    )
