"""Drives with one fault: a load that reaches it, a load or a drive that does not."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.system import now_us
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.rows.workload import Workload
from tests.kit.lab_access import server_pid
from tests.kit.rigs import CUTS_MAX, FAMILIES, Bench, bench, cut_beside, quick
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, PASS, Fault, faults

pytestmark = [pytest.mark.planted, pytest.mark.root]

SMALL, LARGE = 128, 65536  # bytes of a row
INLINE = 1024  # the same, and PostgreSQL keeps it in the row
TAIL = {"missing-tail": -1}
ALWAYS = 10**6  # flushes, more than any load here makes
# MariaDB's own pages are as large as what is lost there, or the kernel writes some of
# them together; then it loses commits of small rows, too, or does not come back.
POSTGRESQL = ("postgresql",)
# An autovacuum's log is written in pieces above 32 KiB: with one each second, 4 of 10
# loads of small rows lost commits on a drive that loses such writes; 0 of 10 without.
QUIET = {"postgresql": {"autovacuum": "off"}}
# struct fiemap of linux/fiemap.h for one extent, and the request that fills it.
FIEMAP, ONE_EXTENT = 0xC020660B, struct.Struct("=QQIIII" + "QQQQQIIII")


def drive(**fault: object) -> DriveSpec:
    return replace(DriveSpec(seed=3), **fault)  # type: ignore[arg-type]


def torn(unit: int) -> DriveSpec:
    return drive(tear_bytes=unit)


def failing(flushes: int) -> DriveSpec:
    return drive(personality="failing", honest_flushes=flushes)


ABOVE = drive(lost_above_bytes=32768)
UNCACHED_ABOVE = replace(ABOVE, personality="write-through")
DRIVES = (
    Fault("honest, 64 KiB", lambda: (drive(), LARGE), PASS),
    Fault("lost above 32 KiB, 128 B", lambda: (ABOVE, SMALL), PASS, engines=POSTGRESQL),
    Fault(
        "lost above 32 KiB, 64 KiB",
        lambda: (ABOVE, LARGE),
        FAIL,
        TAIL,
        may_end_it=True,
    ),
    Fault(
        "the same uncached, 128 B",
        lambda: (UNCACHED_ABOVE, SMALL),
        PASS,
        engines=POSTGRESQL,
    ),
    Fault(
        "the same uncached, 64 KiB",
        lambda: (UNCACHED_ABOVE, LARGE),
        FAIL,
        TAIL,
        engines=POSTGRESQL,
    ),
    Fault("torn at 512", lambda: (torn(512), SMALL), FAIL, TAIL),
    Fault("torn at 4096", lambda: (torn(4096), LARGE), FAIL, TAIL, engines=POSTGRESQL),
    Fault(
        "torn at 16384", lambda: (torn(16384), LARGE), FAIL, TAIL, engines=POSTGRESQL
    ),
    Fault("not yet failing", lambda: (failing(ALWAYS), SMALL), PASS),
    Fault("failing", lambda: (failing(300), SMALL), FAIL, TAIL),
)


def rows_of(size: int) -> Workload:
    """Return a load that ends well after the drive has destaged what it began with."""
    return replace(quick(), payload_bytes=(size,), cut_after_s=(1.4, 1.8))


@pytest.mark.wide_with(
    "mariadb",
    "failing",
    "torn at 512",
    "torn at 4096",
    "torn at 16384",
    "honest, 64 KiB",
    "not yet failing",
    "the same uncached, 128 B",
    "the same uncached, 64 KiB",
)
@faults(DRIVES)
@pytest.mark.parametrize("engine", FAMILIES)
def test_drives(engine: str, fault: Fault, tmp_path: Path) -> None:
    spec, size = fault.plant()
    lab = LabSpec(engine, drive=spec, settings=QUIET.get(engine, {}))
    with bench(lab, tmp_path) as here:
        fault.require(here.judge(here.cut_cycle(rows_of(size))), engine)


def wait_for_rows(here: Bench, count: int) -> None:
    query = f"select count(*) from {here.table}"
    wait_until(lambda: bool(here.execute(query)[0][0] >= count), "rows are there")


# A checkpoint writes the table's pages, and the log before it is not read again.
CHECKPOINTS = (
    Fault("no checkpoint", lambda: (drive(personality="reordering"), False), PASS),
    Fault("honest", lambda: (drive(), True), PASS),
    Fault(
        "reordering",
        lambda: (drive(personality="reordering"), True),
        FAIL,
    ),
)


@pytest.mark.wide_with("honest", "no checkpoint")
@faults(CHECKPOINTS)
@pytest.mark.parametrize("engine", POSTGRESQL)
def test_a_flush_that_leaves_out_older_writes_is_met_by_a_checkpoint(
    engine: str, fault: Fault, tmp_path: Path
) -> None:
    spec, checkpoint = fault.plant()
    asked_us = 0

    def act() -> None:
        nonlocal asked_us
        if checkpoint:
            wait_for_rows(here, 1000)
            time.sleep(spec.destage_age_s / 2)  # a fast machine has them long before
            asked_us = now_us()
            here.execute("checkpoint")

    settings = {"checkpoint_flush_after": "0", "autovacuum": "off"}
    lab = LabSpec(engine, drive=spec, settings=settings)
    for number in range(CUTS_MAX):
        with bench(lab, tmp_path / str(number)) as here:
            outcome = cut_beside(here, act, rows_of(INLINE))
        went_us = find_cut_us(outcome.case)
        assert went_us is not None
        # What the drive has kept for so long is stable.
        is_stable = went_us - asked_us >= spec.destage_age_s * 1e6
        if is_stable and outcome.verdict is PASS and fault.verdict is FAIL:
            continue
        assert outcome.verdict is fault.verdict, outcome.judgement
        if not outcome.after.failure:
            break
        # What reads the table may be gone as well: that shows nothing of its rows.
        assert outcome.judgement.reasons[1].startswith("unrecoverable: ")
    if fault.verdict is PASS:
        fault.require(outcome, engine)
    else:
        # What came before the checkpoint is gone, and much of what came later is not.
        assert outcome.found is not None, outcome.judgement
        assert outcome.found.counts["missing-hole"] > 0


def place_on_drive(file: Path, offset: int) -> tuple[int, int]:
    """Return where a byte of *file* is on the drive, and how many follow it there."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        asked = ONE_EXTENT.pack(offset, 1, 0, 0, 1, 0, *[0] * 9)
        values = ONE_EXTENT.unpack(fcntl.ioctl(descriptor, FIEMAP, asked))
    finally:
        os.close(descriptor)
    assert values[3] == 1, "no extent"
    logical, physical, length = values[6:9]
    return physical + offset - logical, logical + length - offset


FORGETFUL = (
    Fault("all of it kept", lambda: False, PASS),
    Fault("a part forgotten", lambda: True, FAIL, TAIL),
)


@pytest.mark.wide_with("all of it kept")
@faults(FORGETFUL)
@pytest.mark.parametrize("engine", POSTGRESQL)
def test_a_drive_that_forgets_a_part_of_the_log(
    engine: str, fault: Fault, tmp_path: Path
) -> None:
    def act() -> None:
        wait_for_rows(here, 300)
        query = (
            "select current_setting('data_directory') || '/pg_wal/' || file_name,"
            " file_offset from pg_walfile_name_offset(pg_current_wal_lsn())"
        )
        ((name, offset),) = here.execute(query)
        root = Path(f"/proc/{server_pid(here.lab)}/root")
        at, length = place_on_drive(root / name[1:], offset - offset % 8192 + 8192)
        if fault.plant():
            here.lab.set_drive(forget_at_bytes=at, forget_bytes=length)

    with bench(LabSpec(engine, drive=drive()), tmp_path) as here:
        fault.require(cut_beside(here, act, rows_of(SMALL)), engine)
