"""Sessions, and what lies between them and the server, that do what they must not."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.cutmoment import SENT_AGE_MAX_S
from dbcheck.load.sessions import commit
from dbcheck.ports.connection import Session
from dbcheck.rows.loss import LossKind
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.table import LEDGER
from tests.kit.operations import INSERTS
from tests.kit.proxy import FORGE, PASS_ON, SWALLOW, SWALLOW_AND_CLOSE, Proxy
from tests.kit.refusals import refused
from tests.kit.rigs import TABLES, quick
from tests.kit.sessions import SendsInstead, run_on
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, INCONCLUSIVE, PASS, Fault, engines, faults
from tests.planted.site import LIMITS, Site
from tests.planted.wrapped import LeavesOpen, RollsBack, Stalls, wrapped

pytestmark = pytest.mark.planted

LOST = (1, 5)  # session and seq of the one operation that something is done to
LATE = (2.3, 2.6)  # seconds: late enough for a second of idleness before it


def nothing(site: Site) -> Outcome:
    return site.cycle()


def reply_swallowed(site: Site) -> Outcome:
    outcome = _through(site, SWALLOW)
    assert outcome.load is not None
    assert (outcome.load.sent[1], outcome.load.acked[1]) == (LOST[1], LOST[1] - 1)
    assert _row_of(site, *LOST)
    return outcome


def reply_lost_with_its_connection(site: Site) -> Outcome:
    sessions = quick().sessions
    of_new = f"select 1 from {TABLES[site.name]} where session > {sessions}"

    def cut() -> None:
        wait_until(lambda: bool(site.execute(of_new)), "the session is replaced")
        site.server.kill()

    outcome = _through(site, SWALLOW_AND_CLOSE, cut)
    assert outcome.load is not None
    assert (outcome.load.sent[1], outcome.load.acked[1]) == (LOST[1], LOST[1] - 1)
    assert len(outcome.load.sent) == 1 + sessions + 1
    assert _row_of(site, *LOST)
    return outcome


def reply_made_up(site: Site) -> Outcome:
    outcome = _through(site, FORGE)
    assert not _row_of(site, *LOST)
    return _named(outcome)


def rolled_back(site: Site) -> Outcome:
    engine = wrapped(
        site.rig.site.writer.engine, lambda opened: RollsBack(opened, *LOST)
    )
    return _named(site.cycle(engine=engine))


def locked_before_the_cut(site: Site) -> Outcome:
    return _locked(site, 1.3)


def locked_for_a_moment(site: Site) -> Outcome:
    return _locked(site, 0.3)


def load_over(site: Site) -> Outcome:
    """Send nothing more long before the cut."""
    engine = wrapped(site.rig.site.writer.engine, lambda opened: Stalls(opened, 20))
    limits = replace(LIMITS, silence_s=30.0)  # the cut must come before it is gone
    return site.cycle(engine=engine, workload=_late(site), limits=limits)


def replies_late(site: Site) -> Outcome:
    # Far longer than a session whose reply had just passed takes to send its next
    # operation on a busy machine, so that each of them is old at the cut.
    return _late_replies(site, 2 * SENT_AGE_MAX_S)


def replies_a_moment_late(site: Site) -> Outcome:
    return _late_replies(site, 0.3)


SESSIONS = (
    Fault("nothing", nothing, PASS),
    Fault("a reply swallowed", reply_swallowed, PASS),
    Fault("a reply lost with its connection", reply_lost_with_its_connection, PASS),
    Fault("a reply made up", reply_made_up, FAIL, {"missing-hole": 1}),
    Fault("an ack of a row rolled back", rolled_back, FAIL, {"missing-hole": 1}),
    Fault("locked before the cut", locked_before_the_cut, INCONCLUSIVE, says="idle"),
    Fault("locked for a moment", locked_for_a_moment, PASS),
    Fault("the load over before", load_over, INCONCLUSIVE, says="idle"),
    Fault("replies late", replies_late, INCONCLUSIVE, says="replies may have waited"),
    Fault("replies a moment late", replies_a_moment_late, PASS),
)


@pytest.mark.wide_with("mariadb")
@faults(SESSIONS)
@engines("own_site")
def test_sessions(site: Site, fault: Fault) -> None:
    fault.require(fault.plant(site), site.name)


@engines("own_site")
def test_a_session_without_autocommit_is_refused(site: Site) -> None:
    """In the preflight, so that nothing is cut."""
    engine = wrapped(site.rig.site.writer.engine, LeavesOpen)
    with refused(ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="still open"):
        site.cycle(_never, engine=engine)
    assert site.execute(f"select count(*) from {site.table}") == [(0,)]


@engines("own_site")
def test_autocommit_that_goes_off_in_the_load_ends_it(site: Site) -> None:
    """No ack is logged, nothing is cut, and there is no verdict."""
    opened: list[Any] = []

    def change(session: Any) -> Session:
        opened.append(session)
        return LeavesOpen(session) if len(opened) > 1 else session

    engine = wrapped(site.rig.site.writer.engine, change)
    with refused(ErrorId.ALL_SESSIONS_ENDED, EngineError, naming="still open"):
        site.cycle(_never, engine=engine)
    assert len(opened) > 1


@engines("own_site")
def test_an_ack_of_a_warm_row_that_was_rolled_back_is_refused(site: Site) -> None:
    engine = wrapped(
        site.rig.site.writer.engine, lambda opened: RollsBack(opened, 0, 2)
    )
    with refused(ErrorId.ROW_NOT_VISIBLE, EngineError):
        site.cycle(_never, engine=engine)


@engines("own_site", "postgresql")
def test_the_commit_of_an_aborted_transaction_is_no_ack(site: Site) -> None:
    """The driver raises nothing for it, so the session must."""
    site.rig.site.writer.engine.prepare((LEDGER,))
    session: Any = site.rig.site.writer.engine.open_session((INSERT,))
    with contextlib.closing(session):
        run_on(session, "begin")
        with pytest.raises(psycopg.Error, match="division by zero"):
            run_on(session, "select 1/0")
        SendsInstead(session, b"commit")
        with refused(ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="ROLLBACK"):
            commit(session, INSERTS.operation(1, 1))


@engines("own_site", "postgresql")
def test_a_session_in_an_aborted_transaction_acks_nothing(site: Site) -> None:
    site.rig.site.writer.engine.prepare((LEDGER,))
    session: Any = site.rig.site.writer.engine.open_session((INSERT,))
    with contextlib.closing(session):
        run_on(session, "begin")
        with pytest.raises(psycopg.Error, match="division by zero"):
            run_on(session, "select 1/0")
        with refused(ErrorId.COMMIT_REFUSED, EngineError, naming="aborted"):
            commit(session, INSERTS.operation(1, 1))


def _never() -> None:
    raise AssertionError("nothing may be cut")


def _late(site: Site) -> Any:
    return replace(quick(), cut_after_s=LATE)


def _named(outcome: Outcome) -> Outcome:
    """Require that the one row is named; return the outcome."""
    assert outcome.found is not None
    assert [loss[:3] for loss in outcome.found.losses] == [
        (LossKind.MISSING_HOLE, *LOST)
    ]
    return outcome


def _through(site: Site, fate: str, cut: Callable[[], object] | None = None) -> Outcome:
    """Run a cycle through a proxy that does *fate* to one operation."""
    told: list[bytes] = []
    values = {
        "postgresql": struct.pack("!iiiq", 4, LOST[0], 8, LOST[1]),  # after its length
        "mariadb": struct.pack("<iq", *LOST),
    }[site.name]

    def judge(chunk: bytes) -> str:
        if told or values not in chunk[:100]:
            return PASS_ON
        told.append(chunk)
        return fate

    # So small that no request comes in two chunks, of which one would be passed on.
    small = replace(quick(), payload_bytes=(200,))
    with Proxy(site.server.port, judge) as proxy:
        engine, limits = site.through(proxy.port), replace(LIMITS, cut_s=60.0)
        outcome = site.cycle(cut, engine=engine, workload=small, limits=limits)
    assert told
    return outcome


def _row_of(site: Site, session: int, seq: int) -> bool:
    found = site.execute(
        f"select 1 from {TABLES[site.name]} where session = %s and seq = %s",
        session,
        seq,
    )
    return bool(found)


def _late_replies(site: Site, seconds: float) -> Outcome:
    """Cut once the last replies, which were kept back for so long, have come."""
    with Proxy(site.server.port, lambda _: PASS_ON) as proxy:

        def cut() -> None:
            proxy.withhold()
            time.sleep(seconds)  # this delay is the fault
            proxy.deliver_and_go_dark()
            site.server.kill()

        def restore() -> None:
            proxy.kill()
            site.server.start()
            proxy.start()

        limits = replace(LIMITS, silence_s=10.0, cut_s=20.0)
        engine = site.through(proxy.port)
        return site.cycle(cut, restore, engine=engine, limits=limits)


def _locked(site: Site, seconds: float) -> Outcome:
    """Cut while another connection has kept every session waiting for so long."""
    lock = {
        "postgresql": f"begin; lock table {site.table} in access exclusive mode",
        "mariadb": f"lock tables {site.table} write",
    }[site.name]
    holder = site.connect()
    cursor = holder.cursor()

    def cut() -> None:
        cursor.execute(lock)
        time.sleep(seconds)  # this delay is the fault
        site.server.kill()

    try:
        return site.cycle(cut)
    finally:
        with contextlib.suppress(Exception):
            holder.close()
