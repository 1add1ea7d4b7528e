"""Writes that are gone from before a flush: no volatile cache lost those."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.case import Case
from dbcheck.judge.judge import judge
from dbcheck.model.cut import DriveCut, PowerScope
from dbcheck.model.depth import Completed, Counted, Depth, Remains, Ring
from dbcheck.model.flushes import Counts, UnderLoad
from dbcheck.model.host import WRITE_BACK, WRITE_THROUGH, Layer
from dbcheck.model.records import RestoreRecord
from dbcheck.model.unobserved import Observed
from dbcheck.model.verdict import Verdict
from dbcheck.model.watched import Fact, FactKind, Watched, WatchTally
from tests.kit.cases import case, lab, loaded
from tests.kit.host_samples import BEFORE, FACTS, VOLUME, after
from tests.kit.samples import ALL_GONE, MANIFEST
from tests.kit.samples import FACTS as FACTS_SQL

S = 1_000_000
LAST_US = 9_500_000
HONEST, ROLLED_BACK = 495, 200  # the last block of 500 that is there
SENT_US = LAST_US - 100_000
ON = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
OFF = {**ON, "synchronous_commit": "off"}
UNREAD = {"fsync": "on", "full_page_writes": "on"}
NO_GUARD = {**ON, "full_page_writes": "off"}
MY = {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0", "log_bin": "OFF"}
NOTHING: dict[str, Any] = {}


def seen(fact: Fact, *values: str) -> Watched:
    """Return looks that showed these values, the first as before the load."""
    tally = WatchTally({fact: values[0]})
    for number, value in enumerate(values):
        at_us = LAST_US - 1_000_000 + number
        tally.add(at_us, {fact: value}, at_us)
    return tally.watched()


RELAXED = seen(Fact(FactKind.SETTING, "synchronous_commit"), "on", "off", "on")
NO_CACHE = seen(Fact(FactKind.WRITE_CACHE, "sda"), WRITE_BACK, WRITE_THROUGH)


def cut(
    kept: int = ROLLED_BACK,
    *,
    flushes: int | None = 100,
    sent_us: int | None = SENT_US,
    places: tuple[str, ...] = ("data", "WAL"),
    as_of_us: int | None = LAST_US,
    sessions: int = 1,
    fua: str = "0",
    settings: dict[str, str] = ON,
    of_load: dict[str, Any] = NOTHING,
    **manifest: Any,
) -> Case:
    """Return a case of 100 commits, whose canary wrote a block every 10 ms.

    fua: of the drive.  settings: of the server, in the preflight.
    """
    layer = Layer("sda", "disk", "", "", "", WRITE_BACK, fua, ())
    paths = {place: f"/{place}" for place in places}
    volume = replace(VOLUME, places=paths, layers=(layer,))
    facts = replace(FACTS, volumes=(volume,))
    left = Remains("", (), 1, (Ring(((1, kept),)),), 1024)
    host = replace(after(volumes=(volume,)), remains=left)
    done = UnderLoad(5.0, 100, {"sda": Counts(900, 1, 1, flushes, None)})
    load = loaded(
        last_ack_us=LAST_US,
        observed=(Observed(LAST_US, sent_us=sent_us),),
        canaries=Completed(Counted(500, 400), (Counted(500, 400),), as_of_us, 10_000),
        drives=done,
        **of_load,
    )
    workload = replace(MANIFEST.workload, sessions=sessions, housekeeping=())
    before, server = replace(BEFORE, facts=facts), replace(FACTS_SQL, settings=settings)
    one = case(before, host, load=load, workload=workload, facts=server, **manifest)
    return replace(one, found=replace(ALL_GONE, kept=1))


def drive_cut(gone_us: int | None) -> Case:
    """Return a case whose drives alone were to be cut; gone_us: see DriveCut."""
    one = cut(scope=PowerScope.DRIVE)
    seen = DriveCut({}, (), gone_us, (), ())
    return replace(one, restore=RestoreRecord({}, {one.tested_name: seen}))


@pytest.mark.parametrize(
    ("one", "depth"),
    [
        pytest.param(cut(), None, id="from before a flush"),
        pytest.param(cut(HONEST), Depth.DRIVE, id="since the last flush"),
        pytest.param(cut(flushes=99), Depth.DRIVE, id="too few flushes"),
        pytest.param(
            cut(sessions=64, flushes=5), Depth.DRIVE, id="a flush a second, 64 sessions"
        ),
        pytest.param(cut(sessions=64), None, id="as many flushes as commits"),
        pytest.param(cut(fua="1"), Depth.DRIVE, id="a drive with FUA"),
        pytest.param(cut(settings=OFF), Depth.DRIVE, id="synchronous_commit off"),
        pytest.param(cut(settings=UNREAD), Depth.DRIVE, id="synchronous_commit unread"),
        pytest.param(
            cut(family="mysql", settings=MY), Depth.DRIVE, id="flushed once a second"
        ),
        pytest.param(cut(settings=NO_GUARD), None, id="full_page_writes off"),
        pytest.param(cut(of_load={"settings": OFF}), Depth.DRIVE, id="off at the cut"),
        pytest.param(
            cut(of_load={"watched": RELAXED}), Depth.DRIVE, id="off for a time"
        ),
        pytest.param(
            cut(of_load={"sessions_watched": RELAXED}), Depth.DRIVE, id="in a session"
        ),
        pytest.param(
            cut(of_load={"host_watched": NO_CACHE}), Depth.DRIVE, id="sent no flush"
        ),
        pytest.param(cut(control=True), Depth.DRIVE, id="a control"),
        pytest.param(cut(flushes=None), Depth.DRIVE, id="no flushes counted"),
        pytest.param(cut(sent_us=None), Depth.DRIVE, id="when it was sent is unknown"),
        pytest.param(cut(sent_us=LAST_US - 5 * S), Depth.DRIVE, id="a slow commit"),
        pytest.param(cut(places=("data",)), Depth.DRIVE, id="no log on it"),
        pytest.param(cut(as_of_us=None), Depth.DRIVE, id="no report of the canaries"),
        pytest.param(cut(lab=lab("drive")), Depth.DRIVE, id="a lab's drive"),
        pytest.param(drive_cut(LAST_US), Depth.DRIVE, id="the drive was seen to go"),
        pytest.param(drive_cut(None), None, id="the drive was not seen to go"),
    ],
)
def test_what_is_gone_from_before_a_flush_proves_no_lost_cache(
    one: Case, depth: Depth | None
) -> None:
    """The volume may have been rolled back."""
    assert one.shown_depth is depth


def test_rows_that_are_gone_are_a_fail_whatever_took_them() -> None:
    assert judge(cut()).verdict is Verdict.FAIL
