"""Inventories of a few hosts, each in one group, read without ansible-inventory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from dbcheck.inventory.load import Inventory, make_inventory


def hosts(text: str) -> dict[str, dict[str, Any]]:
    """Return the variables of each host in *text*, a YAML inventory."""
    return _hosts(yaml.safe_load(text)["all"], {})


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
