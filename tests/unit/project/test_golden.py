"""The stored runs are judged as tests/golden says, and a change of that is noticed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests import golden

NAME = "test_rows.py::test_a_fault[missing]"
ITEMS = {"present": ["witness log"], "absent": ["control"]}
KNOWN: dict[str, Any] = {
    "verdict": "FAIL",
    "items": ITEMS,
    "losses": ["missing-hole"],
    "diagnosis": ["reordered writes"],
    "depth": "DRIVE",
}


def test_the_stored_runs_are_judged_as_before() -> None:
    assert golden.judge_stored() == golden.read(golden.STORED)


def test_the_golden_file_has_each_verdict_and_many_faults() -> None:
    """Else it would hold nothing against a change."""
    planted = golden.read(golden.PLANTED)
    shown = {one["verdict"] for known in planted.values() for one in known}
    assert shown == {"PASS", "FAIL", "INCONCLUSIVE"}
    assert sum(bool(known) for known in planted.values()) > 300


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("verdict", "PASS", "verdict: PASS, not FAIL"),
        ("items", {**ITEMS, "absent": []}, "items: {'present': ['witness log'], "),
        ("losses", ["corrupt"], "losses: ['corrupt'], not ['missing-hole']"),
        ("diagnosis", [], "diagnosis: [], not ['reordered writes']"),
        ("depth", "", "depth: , not DRIVE"),
    ],
)
def test_another_judgement_of_a_planted_fault_is_named(
    key: str, value: object, says: str
) -> None:
    known = {NAME: [KNOWN]}
    assert not golden.differences(NAME, [copy.deepcopy(KNOWN)], known)
    (difference,) = golden.differences(NAME, [KNOWN, {**KNOWN, key: value}], known)
    assert difference.startswith(f"{NAME}: {says}")


def test_a_judgement_that_chance_decides_may_be_any_that_was_seen() -> None:
    other = {**KNOWN, "depth": ""}
    known = {NAME: [KNOWN, other]}
    assert not golden.differences(NAME, [other], known)


def test_a_test_that_is_not_in_the_golden_file_is_named() -> None:
    assert golden.differences(NAME, [KNOWN], {}) == [f"{NAME} is not in planted.json"]
    assert not golden.differences(NAME, [], {})
