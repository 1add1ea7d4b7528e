"""What servers print of their replication, and who may be promoted."""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.model.cut import CutClass, PowerState
from dbcheck.model.replication import (
    Received,
    count_gtids,
    find_most_advanced_node,
    find_newest_gtids,
    format_position,
    name_in_log,
    parse_position,
)
from dbcheck.power.registry import ReadOnlySwitch
from tests.kit.refusals import refused

ONE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TWO = "8b850829-e97e-11f1-9ef7-02fc00000001"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        (f"{ONE}:1-5", {ONE: 5}),
        (f"{ONE}:7", {ONE: 1}),
        (f"{ONE}:1-5:7:9-10", {ONE: 8}),
        (f"{ONE.upper()}:1-5,\n{TWO}:3", {ONE: 5, TWO: 1}),
        (f"{ONE}:1-5:tag:1-2, {TWO}:other:4", {ONE: 7, TWO: 1}),
        ("0-1-100", {}),
    ],
)
def test_gtids_of_mysql_are_counted(text: str, found: dict[str, int]) -> None:
    assert count_gtids(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("0-1-100", {"1": 100}),
        ("0-1-100,0-2-105,1-1-7", {"1": 100, "2": 105}),
        (" 0-1-3 ,, 0-1-4", {"1": 4}),
        (f"{ONE}:1-5", {}),
    ],
)
def test_the_newest_gtid_of_mariadb_counts(text: str, found: dict[str, int]) -> None:
    assert find_newest_gtids(text) == found


def test_positions_are_read_and_written_as_postgresql_does() -> None:
    assert parse_position("0/16B3748") == 0x16B3748
    assert parse_position("A/1") == (10 << 32) + 1
    assert format_position(parse_position("1A/2B")) == "1A/2B"


def test_who_received_most() -> None:
    assert find_most_advanced_node({}) is None
    assert find_most_advanced_node({"a": Received(None, None)}) is None
    found = {"a": Received(5, 9), "b": Received(7, 1), "c": Received(None, 8)}
    assert find_most_advanced_node(found) == "b"


def test_what_names_a_server_in_its_log() -> None:
    assert name_in_log({"timeline": "1", "server_id": "2"}) == ("timeline", "1")
    assert name_in_log({"server_uuid": ONE, "port": "1"}) == ("server_uuid", ONE)
    assert name_in_log({"port": "1"}) == ("", "")


def test_a_switch_that_is_only_read_cuts_nothing() -> None:
    class Switch:
        kind, cut_class, attended = None, CutClass.AC, True

        def state(self) -> PowerState:
            return PowerState.OFF

        def failure(self) -> str | None:
            return None

    real: Any = Switch()
    switch = ReadOnlySwitch(real)
    assert switch.state() is PowerState.OFF
    assert switch.failure() is None
    assert not switch.attended
    for act in (switch.cut, switch.restore):
        with refused(
            ErrorId.SWITCH_ONLY_REPORTS, PowerError, naming="neither cuts nor restores"
        ):
            act()
