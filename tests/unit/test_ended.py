"""Cut, crashed or shut down: what shows which, and what shows nothing."""

from __future__ import annotations

import dataclasses

import pytest

from dbcheck.core.ended import Ended, not_shut_down
from dbcheck.core.evidence import AtTheCut, Standing

CLOSED = AtTheCut(
    last_ack_us=9_500_000, cut_us=10_000_000, asked=True, gone="broken", in_flight=8
)
SILENT = dataclasses.replace(CLOSED, gone="silent")
FAREWELL = dataclasses.replace(SILENT, farewells=("shutting down",))
PRESENT, UNSEEN = Standing.PRESENT, Standing.NOT_OBSERVABLE
ASSUMED = Standing.ASSUMED
AGAINST = Standing.CONTRADICTED


@pytest.mark.parametrize(
    ("load", "ended", "standing"),
    [
        pytest.param(SILENT, Ended(), UNSEEN, id="silence alone"),
        pytest.param(CLOSED, Ended(), UNSEEN, id="closed"),
        pytest.param(None, Ended(), UNSEEN, id="client lost"),
        pytest.param(CLOSED, Ended(canary=False), PRESENT, id="crash recovery"),
        pytest.param(None, Ended(canary=False), PRESENT, id="client lost, crash"),
        pytest.param(SILENT, Ended(logged=True), PRESENT, id="the log tells"),
        pytest.param(CLOSED, Ended(exact=True), PRESENT, id="a lab's cut"),
        pytest.param(SILENT, Ended(seen_off=True), ASSUMED, id="power seen off"),
        pytest.param(CLOSED, Ended(seen_off=True), UNSEEN, id="soft-off, closed"),
        pytest.param(SILENT, Ended(cache_lost=True), ASSUMED, id="page cache lost"),
        pytest.param(CLOSED, Ended(cache_lost=True), UNSEEN, id="stopped, then cut"),
        pytest.param(
            SILENT, Ended(canary=False, unflushed=True), PRESENT, id="MyISAM, silence"
        ),
        pytest.param(
            CLOSED,
            Ended(canary=False, unflushed=True),
            UNSEEN,
            id="MyISAM, perhaps stopped and then cut",
        ),
        pytest.param(
            SILENT, Ended(canary=True, exact=True), AGAINST, id="canary kept, silent"
        ),
        pytest.param(
            SILENT,
            Ended(canary=True, by_session=True, seen_off=True),
            AGAINST,
            id="committed in the dark",
        ),
        pytest.param(
            CLOSED,
            Ended(canary=True, by_session=True, logged=True),
            PRESENT,
            id="its connection broke, then a crash",
        ),
        pytest.param(FAREWELL, Ended(canary=False, exact=True), AGAINST, id="farewell"),
        pytest.param(
            SILENT,
            Ended(canary=False, recorded="wtmp records the shutdown"),
            AGAINST,
            id="the host recorded its shutdown",
        ),
        pytest.param(
            SILENT, Ended(restarted=False, canary=False), AGAINST, id="never stopped"
        ),
    ],
)
def test_how_a_server_ended(
    load: AtTheCut | None, ended: Ended, standing: Standing
) -> None:
    item = not_shut_down(load, ended)
    assert (item.standing, item.required) == (standing, True)


def test_a_server_that_never_stopped_was_not_shut_down() -> None:
    item = not_shut_down(CLOSED, Ended(restarted=False, canary=True))
    assert "shut down" not in item.reason
    assert "never stopped" in item.reason


def test_a_crash_beside_a_host_with_power_is_not_called_a_shutdown() -> None:
    words = "WARNING: terminating connection because of crash of another server process"
    item = not_shut_down(dataclasses.replace(CLOSED, farewells=(words,)), Ended())
    assert item.standing is AGAINST
    assert "shutdown" not in item.reason


def test_it_is_said_what_would_have_told() -> None:
    item = not_shut_down(SILENT, Ended(no_canary="the account lacks LOCK TABLES"))
    assert "the account lacks LOCK TABLES" in item.reason
