"""Any inventory that Ansible itself can read, through its own ansible-inventory."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dbcheck import children
from dbcheck.errors import UsageError
from dbcheck.inventory.document import Value
from dbcheck.inventory.groups import Variables
from dbcheck.inventory.trusted import folder_for_ansible, require_trusted

_PROGRAM = "ansible-inventory"
_BESIDE = ("group_vars", "host_vars")
_TIMEOUT_S = 120
_SAID_MAX = 400


def _read_of(path: Path) -> Iterator[Path]:
    """Yield the files and folders that Ansible reads, or runs, for *path*."""
    inside = path.resolve()
    beside = inside if inside.is_dir() else inside.parent
    for one in (path, *(beside / name for name in _BESIDE)):
        yield one
        if one.is_dir():
            yield from one.rglob("*")


def variables(path: Path, why: str) -> dict[str, Variables]:
    """Return the variables of each host, as Ansible merged them.

    why: what makes this file one for Ansible, e.g. "its name does not end in .yml".
    Ansible runs an inventory that is a program, and what plugins its settings name.
    Raise UsageError if it is not installed or cannot read the file either, or if others
    may write what it would run.
    """
    for one in _read_of(path):
        require_trusted(one)
    here = folder_for_ansible(path)
    if shutil.which(_PROGRAM, path=children.search_path()) is None:
        raise UsageError(
            f"{path} is to be read with {_PROGRAM}, which is not here: {why}",
            hint="Install ansible-core, or write the inventory as YAML.",
        )
    try:
        done = subprocess.run(
            (_PROGRAM, "-i", str(path.resolve()), "--list"),
            cwd=here,
            env=children.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
        if done.returncode:
            raise ValueError(done.stderr.decode(errors="replace"))
        hosts = json.loads(done.stdout).get("_meta", {}).get("hostvars", {})
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{_PROGRAM} did not read {path} within {_TIMEOUT_S} s"
        ) from None
    except (OSError, ValueError) as error:
        words = " ".join(str(error).split())[-_SAID_MAX:]
        raise UsageError(
            f"{_PROGRAM} cannot read {path}: {words}",
            hint=f"Run: {_PROGRAM} -i {path} --list",
        ) from None
    return {
        host: {name: Value(value, str(path)) for name, value in values.items()}
        for host, values in hosts.items()
    }
