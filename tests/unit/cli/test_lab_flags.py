"""Flags of a lab's cluster that need others."""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.lab import ClusterOptions
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"pause_s": 3.0}, "--pause-after"),
        ({"partition_s": 3.0}, "--partition-after"),
        ({"partition": "flapping"}, "--partition-after"),
        ({"partition": "flapping", "pause_after_s": 1.0}, "--partition-after"),
    ],
)
def test_how_a_fault_goes_needs_the_fault(given: dict[str, Any], missing: str) -> None:
    with refused(ErrorId.OPTION_NEEDS_ANOTHER, UsageError, naming="no node") as caught:
        ClusterOptions(2, given).spec()
    assert caught.value.hint == f"Add {missing}."


def test_a_fault_and_how_it_goes_are_a_cluster() -> None:
    given: dict[str, Any] = {"partition_after_s": 1.0, "partition": "to-writer"}
    spec = ClusterOptions(2, given).spec()
    assert spec is not None
    assert spec.has_network
    assert spec.partition == "to-writer"
