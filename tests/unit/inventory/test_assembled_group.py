"""Who forms a replication group again, as an inventory and the command have it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dbcheck.inventory.entry import Entry
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.report.progress import PlainProgress
from dbcheck.runner import assemble
from dbcheck.site.group import Bootstrap
from dbcheck.witness.window import WindowLimits


@pytest.mark.parametrize(
    ("topology", "survives", "promoted_by", "cuts", "forms"),
    [
        ("group-replication", "all", "sql", True, True),
        ("group-replication", "all", "auto", True, False),
        # dbcheck reconcile: what it forms could be a second group.
        ("group-replication", "all", "sql", False, False),
        ("group-replication", "writer-gone", "sql", True, False),
        ("galera", "all", "sql", True, False),
    ],
)
def test_dbcheck_forms_a_group_only_if_it_is_asked_to(
    topology: str,
    survives: str,
    promoted_by: str,
    cuts: bool,
    forms: bool,
    tmp_path: Path,
) -> None:
    names = ("db1", "db2", "db3")
    one = Entry(
        "db1",
        "mysql+mysqlconnector://a@db1/x",
        witness=f"file:{tmp_path}/acks",
        power=ExecConfig(("true",)),
        topology=topology,
        survives=survives,
        promoted_by=promoted_by,
    )
    _, *others = (replace(one, name=each) for each in names)
    entry = replace(one, standbys=tuple(others))
    progress, window = PlainProgress(Console(quiet=True)), WindowLimits()
    with contextlib.closing(assemble.make_witness(entry, window)) as witness:
        rig = assemble.make_rig(entry, witness, progress, tmp_path, window, cuts=cuts)
    site: Any = rig.site
    assert isinstance(site._bootstrap, Bootstrap) is forms
    assert tuple(site.nodes) == names
