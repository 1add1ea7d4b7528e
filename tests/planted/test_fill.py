"""Rows that were filled in before the load, gone or changed after the cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.rows.acks import Key
from dbcheck.rows.fill import PARTS
from dbcheck.rows.loss import LossKind
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.workload import Workload
from tests.kit.definition import checksum
from tests.kit.rigs import FAMILIES, SEED, bench, quick
from tests.planted.fault import FAIL, PASS, Fault, engines, faults
from tests.planted.site import Site

pytestmark = pytest.mark.planted

ROWS = 4000
AT = 2345  # the row that a fault meets
HOLE, CORRUPT = LossKind.MISSING_HOLE.value, LossKind.CORRUPT.value


def aged(name: str = "insert") -> Workload:
    return replace(quick(name), rows_before=ROWS)


class Filled:
    """The rows of the fill in one table of a server that came back."""

    def __init__(self, site: Site, table: str = "ledger") -> None:
        self._site = site
        self._table = site.table.replace("ledger", table)
        ((self.epoch,),) = site.execute(
            f"select epoch from {self._table} order by id limit 1"
        )

    def change(self, assignment: str, *values: object) -> None:
        """Update the row that a fault meets."""
        self._on_row(f"update {self._table} set {assignment}", *values)

    def delete(self) -> None:
        """Delete that row."""
        self._on_row(f"delete from {self._table}")

    def delete_all(self) -> None:
        """Delete every row of the fill."""
        where = "where epoch = %s"
        self._site.execute(f"delete from {self._table} {where}", self.epoch)

    def payload(self) -> bytes:
        """Return the payload of that row."""
        schedule = Schedule(SEED, self.epoch, aged().payload_bytes)
        return schedule.values(AT // PARTS, AT % PARTS + 1, AT % PARTS)[4]

    def _on_row(self, statement: str, *values: object) -> None:
        where = "where epoch = %s and session = %s and part = %s"
        key = (self.epoch, AT // PARTS, AT % PARTS)
        self._site.execute(f"{statement} {where}", *values, *key)


def nothing(filled: Filled) -> None:
    """Leave all as it is."""


def row_gone(filled: Filled) -> None:
    filled.delete()


def all_gone(filled: Filled) -> None:
    filled.delete_all()


def flipped_bit(filled: Filled) -> None:
    now = filled.payload()
    filled.change("payload = %s", bytes([now[0] ^ 0x80]) + now[1:])


def emptied(filled: Filled) -> None:
    filled.change("payload = %s", b"")


def whole_but_other(filled: Filled) -> None:
    """Give a row another content, and a checksum that fits."""
    content = bytes(100)
    key = Key(filled.epoch, AT // PARTS, AT % PARTS + 1)
    right = checksum(key, AT % PARTS, content)
    filled.change("payload = %s, checksum = %s", content, right)


def other_id(filled: Filled) -> None:
    filled.change("id = 1000000000")


FAULTS = (
    Fault("nothing", nothing, PASS),
    Fault("a row gone", row_gone, FAIL, {HOLE: 1}, "earlier"),
    Fault("all rows gone", all_gone, FAIL, {HOLE: ROWS}, "earlier"),
    Fault("a bit of a payload flipped", flipped_bit, FAIL, {CORRUPT: 1}, "earlier"),
    Fault("a payload empty", emptied, FAIL, {CORRUPT: 1}, "earlier"),
    Fault("a whole but other content", whole_but_other, FAIL, {HOLE: 1}, "earlier"),
    Fault("another id", other_id, FAIL, {HOLE: 1}, "earlier"),
)


@pytest.mark.wide_with(
    "a row gone",
    "another id",
    "all rows gone",
    "a payload empty",
    "a whole but other content",
    "nothing-mariadb",
)
@engines("own_site")
@faults(FAULTS)
def test_rows_of_a_fill(site: Site, fault: Fault) -> None:
    def restore() -> None:
        site.server.start()
        fault.plant(Filled(site))

    outcome = site.cycle(restore=restore, workload=aged())
    fault.require(outcome, site.name)
    assert outcome.found is not None
    assert outcome.found.own_counts == {}


@pytest.mark.wide
@engines("own_site")
@pytest.mark.parametrize("table", ["item", "register"])
def test_a_row_of_a_fill_is_missed_in_every_table(site: Site, table: str) -> None:
    """The second cycle finds the rows that the first one filled in."""
    honest = site.cycle(workload=aged("mixed"))
    assert honest.verdict is PASS, honest.judgement

    def restore() -> None:
        site.server.start()
        Filled(site, table).delete()

    broken = site.cycle(restore=restore, workload=aged("mixed"))
    assert broken.verdict is FAIL
    assert broken.found is not None
    assert (broken.found.counts, broken.found.own_counts) == ({HOLE: 1}, {})
    before = broken.manifest.tables[table]
    assert before.rows_by_epoch.keys() >= {Filled(site, table).epoch}
    assert before.rows_by_epoch.keys() == set(before.sound)


@pytest.mark.wide
@engines("own_site")
def test_a_row_of_a_fill_without_content_is_missed(site: Site) -> None:
    fs = site.table.replace("ledger", "fs")

    def restore() -> None:
        site.server.start()
        site.execute(f"delete from {fs} where id = {AT}")

    broken = site.cycle(restore=restore, workload=aged("classic"))
    assert broken.verdict is FAIL
    assert broken.found is not None
    assert (broken.found.counts, broken.found.own_counts) == ({HOLE: 1}, {})


@pytest.mark.wide_with("mariadb", "honest")
@pytest.mark.root
@pytest.mark.parametrize("engine", FAMILIES)
@pytest.mark.parametrize("drive", ["honest", "lying"])
def test_filled_tables_on_a_drive(engine: str, drive: str, tmp_path: Path) -> None:
    """What a lying drive leaves is no database any more, or one without the rows."""
    spec = DriveSpec(personality=drive, kept_writes="none", seed=3)
    with bench(LabSpec(engine, drive=spec), tmp_path) as here:
        started = here.cut_cycle(aged())
        outcome = here.judge(started)
    expected = PASS if drive == "honest" else FAIL
    assert outcome.verdict is expected, outcome.judgement
