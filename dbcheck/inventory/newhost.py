"""Writes an inventory of one host: the lines that this host needs, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml  # type: ignore[import-untyped]

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config import files
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import make_inventory
from dbcheck.inventory.yaml_file import is_plain_name, is_plain_text, parse_yaml
from dbcheck.model.cut import SwitchKind
from dbcheck.remote.address import AS_SSH, parse_ssh_url
from dbcheck.remote.way import LOCAL, find_way

MANUAL = SwitchKind.MANUAL.value
NAME = "db1"  # of a host whose URL holds no name, as with an address
_FIRST_LABEL = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)(\..*)?")
_INDENT = " " * 6
_HEAD = """\
# One host for dbcheck, read as Ansible reads it. docs/reference.md explains each
# variable; `dbcheck init --example FILE` writes an example with all of them. No secret
# belongs here. The database's password is taken from DBCHECK_PASSWORD, or from where
# psql and mysql take it; dbcheck_password_command names a program that prints it.
"""
_SWITCH_HEAD = """\
# The switch. Put your own addresses and numbers in place of those below;
# docs/guides/switches.md#{} explains them.
"""


def list_switches() -> list[str]:
    """Return the names that NewHost.switch can have."""
    return [MANUAL, *files.list_switch_names()]


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host as its user describes it in a few words.

    host:   URL of the target's host, see remote.way; "" if it is not to be asked.
    switch: MANUAL, or the name of a recipe.
    witness_identity, witness_known_hosts: files for SSH to the witness; None for those
            that ssh itself uses.
    """

    name: str
    target: str
    witness: str
    host: str
    switch: str = MANUAL
    witness_identity: Path | None = None
    witness_known_hosts: Path | None = None

    @property
    def has_recipe(self) -> bool:
        """True if the user has to put values of the switch into the inventory."""
        return self.switch != MANUAL


INVENTED = NewHost(
    NAME,
    target=f"postgresql+psycopg2://dbcheck@{NAME}.example.net/dbcheck",
    witness="ssh://witness@witness.example.net/~/dbcheck",
    host=f"ssh://root@{NAME}.example.net",
)


def suggest_name(target: str, host: str) -> str:
    """Return a name for a host: the first label of its host name, else NAME.

    A switch cuts only a host that reports the name which it has in the inventory.
    """
    for url in (host, target):
        try:
            found = _FIRST_LABEL.fullmatch(urlsplit(url).hostname or "")
        except ValueError:
            continue
        if found and found[1] != "localhost" and is_plain_name(found[1]):
            return found[1]
    return NAME


def require_name(name: str) -> None:
    """Raise UsageError if a host cannot have that name in an inventory."""
    if not is_plain_name(name):
        raise UsageError(
            f"a host cannot be named {name!r}",
            id=ErrorId.VALUE_INVALID,
            hint="Use letters, digits, dots, dashes and underscores, as in db1. It ends"
            " in no dot or dash, and is not all or ungrouped.",
        )


def format_inventory(host: NewHost) -> str:
    """Return the inventory as text; raise UsageError if it would not be read.

    The error names the variable, and repeats no password.
    """
    require_name(host.name)
    lines = [f"{_INDENT}{line}".rstrip() for line in _list_lines(host)]
    name = yaml.safe_dump(host.name).splitlines()[0]  # a number or a yes, in quotes
    return f"{_HEAD}all:\n  hosts:\n    {name}:\n" + "\n".join(lines) + "\n"


def parse_inventory(text: str, name: str, file: Path) -> Entry:
    """Return the host *name* of an inventory that is about to be written to *file*."""
    return make_inventory(file, parse_yaml(text).hosts).entry(name)


def _list_lines(host: NewHost) -> Iterator[str]:
    yield from _format_variables(dbcheck_target=host.target)
    yield from _format_variables(dbcheck_witness=host.witness)
    yield from _format_variables(
        dbcheck_witness_identity=_format_path(host.witness_identity),
        dbcheck_witness_known_hosts=_format_path(host.witness_known_hosts),
    )
    yield from _format_variables(**_list_ansible_variables(host.host))
    if not host.has_recipe:
        yield from _format_variables(dbcheck_power=MANUAL)
        return
    yield from _SWITCH_HEAD.format(host.switch).splitlines()
    recipe = files.read_switch_recipe(host.switch).splitlines()
    begins = next(n for n, line in enumerate(recipe) if not line.startswith("#"))
    yield from recipe[begins:]


def _format_path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _list_ansible_variables(host: str) -> dict[str, Any]:
    """Return the variables by which the target's host is reached, or left alone."""
    if not host:
        return {"dbcheck_ask_host": False}
    if host == LOCAL:
        return {"ansible_connection": "local"}
    find_way(host, AS_SSH)  # raises if it is no such URL
    address, _ = parse_ssh_url(host, "a host", "")
    return {
        "ansible_host": address.host,
        "ansible_user": address.user,
        "ansible_port": address.port,
    }


def _format_variables(**values: Any) -> Iterator[str]:
    """Yield a line of YAML for each variable that has a value.

    Raise UsageError for a value that would be read as another one.
    """
    for name, value in values.items():
        if isinstance(value, str):
            _require_exact(name, value)
        if value is not None:
            yield yaml.safe_dump({name: value}, width=float("inf")).rstrip("\n")


def _require_exact(name: str, value: str) -> None:
    """Raise UsageError, which repeats no value, for one that is not read as it is."""
    if not is_plain_text(value):
        raise UsageError(
            f"{name} holds a control character, a byte order mark, or a byte that is"
            " not UTF-8",
            id=ErrorId.VALUE_INVALID,
            hint="Type the value without it.",
        )
    if "{{" in value or "{%" in value:
        raise UsageError(
            f"{name} holds '{{{{' or '{{%', which stand for another value",
            id=ErrorId.INVENTORY_TEMPLATE_NOT_SUPPORTED,
            hint="Write the value itself.",
        )
