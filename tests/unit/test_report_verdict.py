from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from dbcheck.report.verdict import verdict_report

RESULT: dict[str, Any] = {
    "verdict": "PASS",
    "reasons": ["all kept"],
    "target": "postgresql://db1/dbcheck",
    "server": "PostgreSQL 15",
    "witness": {"url": "ssh://w/acks", "kind": "ssh"},
    "folder": "runs/1",
    "workload": "insert",
    "sessions": 1,
    "seed": 1,
    "load": None,
    "confirmed": None,
    "evidence": [],
    "ranges": [],
    "settings_at_fault": [],
    "losses": {},
    "lab": {},
    "control": False,
}


@pytest.mark.parametrize(
    "depth",
    [None, {"depth": None, "reasons": ["?"]}, {"depth": "OS", "reasons": ["!"]}],
)
def test_a_reset_is_always_told(depth: dict[str, Any] | None) -> None:
    for power, told in (("sysrq", True), ("fence", False)):
        file = io.StringIO()
        report = verdict_report({**RESULT, "power": power, "depth": depth})
        Console(file=file, width=400).print(report)
        assert ("a reset with the power on" in file.getvalue()) is told
