"""Moments of another machine's clock, and how long it may go on without news."""

from __future__ import annotations

import pickle
import random
from typing import Any, cast

import pytest

from dbcheck.base.system import now_us
from dbcheck.load.far import Shift
from dbcheck.load.farhost import FarHost, pack_job, unpack_job
from dbcheck.load.group import Break, GroupResult, Snapshot
from dbcheck.load.job import Job
from dbcheck.load.pace import LEASE_S, Lease
from dbcheck.load.sessions import Sessions
from dbcheck.model.cut import Replaced
from dbcheck.model.server import ServerFacts
from dbcheck.model.unobserved import Observed
from dbcheck.model.watched import WatchTally, make_facts_of_settings
from dbcheck.ports.engine import Engine
from dbcheck.ports.witness import Witness
from tests.kit.operations import INSERTS

LEASE_US = int(LEASE_S * 1e6)


@pytest.mark.parametrize("ahead_us", [-7_200_000_000, 0, 7_200_000_000])
def test_a_moment_of_another_clock_never_looks_earlier_than_it_was(
    ahead_us: int,
) -> None:
    draw, shift, here_us = random.Random(ahead_us), Shift(), 10**10
    for _ in range(500):
        here_us += draw.randrange(50_000, 90_000)
        took_us = draw.choice((800, 3_000, 3_000_000))
        shift.note(here_us + ahead_us, here_us + took_us)
        moved = shift.snapshot(Snapshot(clock_us=here_us + ahead_us))
        assert 0 <= moved.clock_us - here_us <= took_us
    quick_us = 800 + 20 * 90  # what the quickest took, and a drift of 20 reports
    assert moved.clock_us - here_us <= quick_us


def test_a_moment_that_never_was_stays_none() -> None:
    shift = Shift()
    shift.note(100, 900)
    moved = shift.snapshot(Snapshot(200, running=3, last_ack_us=150))
    assert moved == Snapshot(1000, running=3, last_ack_us=950)
    result = GroupResult(sent={1: 4}, breaks=[Break(1, 300, True, "")])
    assert shift.result(result).breaks == [Break(1, 1100, True, "")]


def test_what_far_sessions_showed_is_dated_by_the_clients_clock() -> None:
    shift, tally = Shift(), WatchTally(make_facts_of_settings({"a": "on"}))
    shift.note(100, 900)
    for asked_us, value in ((200, "on"), (300, "off")):
        tally.add(asked_us, make_facts_of_settings({"a": value}), asked_us + 1)
    observed = Observed(190, sent_us=180)
    there = GroupResult(
        watched=tally.watched(), replaced=Replaced(2, 150, 160), observed=observed
    )
    here = shift.result(there)
    assert here.observed == Observed(990, sent_us=980)
    assert here.replaced == Replaced(2, 950, 960)
    assert here.watched is not None
    assert (here.watched.first_us, here.watched.last_us) == (1000, 1100)
    (seen,) = here.watched.seen
    assert (seen.value, seen.first_us, seen.answered_us) == ("off", 1100, 1101)
    assert here.watched.gaps == ((1000, 1100),)
    assert shift.result(GroupResult()).replaced == Replaced()


def test_only_what_was_reported_renews_a_lease() -> None:
    """An answer that the network held back names an old report, and renews nothing."""
    lease = Lease(ends=True)
    reported_us = now_us()
    lease.renew(reported_us)
    until_us = lease.until_us
    lease.renew(reported_us - 2 * LEASE_US)
    assert lease.until_us == until_us
    lease.until_us = 0
    lease.renew(now_us() - LEASE_US - 1)
    assert lease.is_over()
    assert not Lease().is_over()


def test_a_job_travels_without_its_engine() -> None:
    """Which holds the password; the worker has an engine of its own."""
    engine: Any = {"password": "hunter2"}
    facts = ServerFacts("Fake", "1", {}, 1, 1, 1, {})
    sessions = Sessions(cast(Engine, engine), facts, INSERTS, None, 3)
    job = Job(sessions, cast(Witness, None), "run", 1)
    assert b"hunter2" in pickle.dumps(job)
    content = pack_job(job)
    assert b"hunter2" not in content
    own = cast(Engine, object())
    there = unpack_job(content, own)
    assert there.sessions.engine is own
    assert (there.sessions.count, there.run_id, there.log) == (3, "run", 1)


def test_a_worker_in_the_place_of_another_knows_nothing() -> None:
    """Dask may make an actor anew where its worker restarted: it runs nothing."""
    host = FarHost()
    assert not host.exchange(0, []).is_begun
    assert not host.kill()
