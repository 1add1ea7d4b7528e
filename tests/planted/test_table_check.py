"""Damage that no reading of rows meets, and that the server's own check finds."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.result import to_values
from tests.kit.innodb_index import miscount
from tests.kit.refusals import refused
from tests.kit.rigs import quick
from tests.kit.server_logs import PAGE_BYTES
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, PASS, engines
from tests.planted.site import Site, spoil

pytestmark = pytest.mark.planted

SPECIAL_BYTES = (
    16  # of a page of an index, at its end; see BTPageOpaqueData in nbtree.h
)
LEAF = 1


def cycle(site: Site, change: Callable[[], object]) -> Outcome:
    """Run a cycle whose server starts, and starts again after a change."""

    def restore() -> None:
        site.changed = True
        site.server.start()
        wait_until(
            lambda: site.rig.site.writer.engine.ready() is None, "server is back"
        )
        change()

    return site.cycle(restore=restore, workload=replace(quick(), rate=800.0))


def left_link(index: Path) -> None:
    """Have the second leaf name another page on its left than the first."""
    content = bytearray(index.read_bytes())
    for end in range(PAGE_BYTES * 2, len(content) + 1, PAGE_BYTES):
        at = end - SPECIAL_BYTES
        left, _, level, flags = struct.unpack_from("<IIIH", content, at)
        if left and level == 0 and flags & LEAF:
            struct.pack_into("<I", content, at, end // PAGE_BYTES - 1)
            break
    else:
        raise AssertionError("the index has one leaf")
    index.write_bytes(content)


def break_index(site: Site) -> None:
    """Break something that no reading of rows looks at."""
    if site.name == "postgresql":
        site.execute(  # several leaves, however few rows there are
            "alter index dbcheck.ledger_pkey set (fillfactor = 10);"
            " reindex index dbcheck.ledger_pkey; checkpoint"
        )
        spoil(site, "ledger_pkey", left_link)
        return
    site.server.stop()
    file = site.server.data / "dbcheck" / "ledger.ibd"
    miscount(file, full=False)
    site.server.start()


def item_of(outcome: Outcome) -> tuple[Status, str]:
    (item,) = (i for i in outcome.judgement.items if i.id is ItemId.TABLE_CHECK)
    return item.status, item.reason


@pytest.mark.wide_with("mysql")
@engines("own_site", "postgresql", "mysql")
def test_what_no_reading_of_rows_meets_is_found(site: Site) -> None:
    """The cycle before finds nothing; the one after is refused."""
    honest = site.cycle()
    assert honest.verdict is PASS, honest.judgement
    status, reason = item_of(honest)
    assert status is Status.PRESENT
    assert "finds nothing wrong with" in reason
    outcome = cycle(site, lambda: break_index(site))
    assert outcome.verdict is FAIL, outcome.judgement
    assert outcome.found is not None
    assert outcome.found.kept == outcome.found.confirmed
    assert to_values(outcome.result)["losses"] == {"index-mismatch": 1}
    assert outcome.after.check is not None, outcome.judgement
    assert item_of(outcome)[0] is Status.CONTRADICTED
    with refused(ErrorId.TABLES_DAMAGED_BEFORE_LOAD, EngineError) as caught:
        site.cycle()
    assert "dbcheck clean" in caught.value.hint
