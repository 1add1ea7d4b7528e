"""What a lab has Patroni do, by its settings."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab.servers.patroni import (
    Patroni4Server,
    PatroniServer,
    is_synchronous,
    waits_for_quorum,
)
from dbcheck.lab.spec import LabSpec
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("given", "id", "hint"),
    [
        ({"synchronous_mode": "maybe"}, ErrorId.SETTING_INVALID, "or quorum"),
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


def test_commits_wait_for_any_of_the_standbys_with_patroni_4_alone() -> None:
    quorum = {"synchronous_mode": "Quorum"}
    Patroni4Server.check_settings(quorum)
    assert is_synchronous(quorum)
    assert waits_for_quorum(quorum)
    assert not waits_for_quorum({})
    with refused(ErrorId.SETTING_INVALID, UsageError, naming="synchronous_mode") as no:
        PatroniServer.check_settings(quorum)
    assert "quorum with Patroni 4" in no.value.hint
    with refused(ErrorId.SETTING_INVALID, UsageError, naming="ttl"):
        Patroni4Server.check_settings({"ttl": "quorum"})


def test_it_manages_postgresql_alone() -> None:
    with refused(ErrorId.TOPOLOGY_NOT_FOR_ENGINE, UsageError, naming="mysql"):
        LabSpec("mysql", patroni=True)
