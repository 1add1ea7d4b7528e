"""Inventories of a few hosts, each in one group, read without ansible-inventory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from dbcheck.inventory.load import Inventory, make_inventory

# libyaml's parser, if PyYAML was built with it: it is ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def hosts(text: str) -> dict[str, dict[str, Any]]:
    """Return the variables of each host in *text*, a YAML inventory."""
    return _hosts(yaml.load(text, _LOADER)["all"], {})


def _hosts(
    group: Mapping[str, Any], outer: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    common = {**outer, **(group.get("vars") or {})}
    own = group.get("hosts", {})
    found = {name: common | (variables or {}) for name, variables in own.items()}
    for child in group.get("children", {}).values():
        found |= _hosts(child, common)
    return found


def loaded(folder: Path, text: str) -> Inventory:
    return make_inventory(folder / "hosts.yml", hosts(text))
