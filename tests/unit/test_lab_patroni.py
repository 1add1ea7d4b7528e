"""What a lab has Patroni do, by its settings."""

from __future__ import annotations

import pytest

from dbcheck.base.errors import UsageError
from dbcheck.lab.servers.patroni import PatroniServer, is_synchronous
from dbcheck.lab.spec import LabSpec


@pytest.mark.parametrize(
    ("given", "why", "hint"),
    [
        ({"synchronous_mode": "maybe"}, "not what Patroni takes", "on or off"),
        ({"synchronous-mode-strict": "2"}, "not what Patroni takes", "on or off"),
        ({"ttl": "soon"}, "--setting ttl=soon is not", "a whole number"),
        ({"synchronous_standby_names": ""}, "Patroni decides", "synchronous_mode=off"),
        ({"wal_log_hints": "off"}, "the lab decides wal_log_hints", "out"),
    ],
)
def test_settings_that_patroni_does_not_take_are_refused(
    given: dict[str, str], why: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        PatroniServer.check_settings(given)
    assert hint in caught.value.hint


def test_commits_wait_for_a_standby_unless_that_is_off() -> None:
    assert is_synchronous({})
    assert is_synchronous({"synchronous-mode": "ON"})
    assert not is_synchronous({"synchronous_mode": "off"})


def test_it_manages_postgresql_alone() -> None:
    with pytest.raises(UsageError, match="Patroni does not manage mysql servers"):
        LabSpec("mysql", patroni=True)
