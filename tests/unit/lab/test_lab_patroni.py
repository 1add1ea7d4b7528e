"""What a lab has Patroni do, by its settings."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab.servers.patroni import PatroniServer, is_synchronous
from dbcheck.lab.spec import LabSpec
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("given", "id", "hint"),
    [
        ({"synchronous_mode": "maybe"}, ErrorId.SETTING_INVALID, "on or off"),
        ({"synchronous-mode-strict": "2"}, ErrorId.SETTING_INVALID, "on or off"),
        ({"ttl": "soon"}, ErrorId.SETTING_INVALID, "a whole number"),
        (
            {"synchronous_standby_names": ""},
            ErrorId.LAB_DECIDES_SETTING,
            "synchronous_mode=off",
        ),
        ({"wal_log_hints": "off"}, ErrorId.LAB_DECIDES_SETTING, "out"),
    ],
)
def test_settings_that_patroni_does_not_take_are_refused(
    given: dict[str, str], id: ErrorId, hint: str
) -> None:
    with refused(id, UsageError, naming=next(iter(given))) as caught:
        PatroniServer.check_settings(given)
    assert hint in caught.value.hint


def test_commits_wait_for_a_standby_unless_that_is_off() -> None:
    assert is_synchronous({})
    assert is_synchronous({"synchronous-mode": "ON"})
    assert not is_synchronous({"synchronous_mode": "off"})


def test_it_manages_postgresql_alone() -> None:
    with refused(ErrorId.TOPOLOGY_NOT_FOR_ENGINE, UsageError, naming="mysql"):
        LabSpec("mysql", patroni=True)
