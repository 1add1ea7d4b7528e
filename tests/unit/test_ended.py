"""Cut, crashed or shut down: what shows which, and what shows nothing."""

from __future__ import annotations

import dataclasses

import pytest

from dbcheck.core.gone import Gone
from dbcheck.core.records import LoadRecord
from dbcheck.judge.ended import Ended, judge_end, not_shut_down
from dbcheck.judge.item import ItemId, Standing
from tests.kit.cases import case, loaded

CLOSED = loaded()
SILENT = dataclasses.replace(CLOSED, gone=Gone.SILENT)
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
            Ended(canary=False, recorded="wtmp has the shutdown"),
            AGAINST,
            id="the host recorded its shutdown",
        ),
        pytest.param(
            SILENT, Ended(restarted=False, canary=False), AGAINST, id="never stopped"
        ),
    ],
)
def test_how_a_server_ended(
    load: LoadRecord | None, ended: Ended, standing: Standing
) -> None:
    assert judge_end(load, ended)[0] is standing


def test_how_it_ended_is_required() -> None:
    item = not_shut_down(case(load=SILENT))
    assert (item.id, item.required) == (ItemId.NOT_SHUT_DOWN, True)


def test_a_server_that_never_stopped_was_judge_end() -> None:
    standing, said = judge_end(CLOSED, Ended(restarted=False, canary=True))
    assert "shut down" not in said
    assert "never stopped" in said


def test_a_crash_beside_a_host_with_power_is_not_called_a_shutdown() -> None:
    words = "WARNING: terminating connection because of crash of another server process"
    standing, said = judge_end(dataclasses.replace(CLOSED, farewells=(words,)), Ended())
    assert standing is AGAINST
    assert "shutdown" not in said


def test_it_is_said_what_would_have_told() -> None:
    standing, said = judge_end(SILENT, Ended(no_canary="the account lacks LOCK TABLES"))
    assert "the account lacks LOCK TABLES" in said
