"""A primary key that lost something, over a table that is whole."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from dbcheck.judge.result import to_values
from tests.kit.server_logs import PAGE_BYTES
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, Fault, engines, faults
from tests.planted.site import Site

pytestmark = pytest.mark.planted


def garbage(index: Path) -> None:
    """Write over every page behind the meta page."""
    with index.open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(b"\xa5" * (index.stat().st_size - PAGE_BYTES))


def root_garbled(index: Path) -> None:
    """Leave every leaf alone; only a search for an id leads through the root.

    Its page, and its level above the leaves, stand in the meta page behind magic and
    version (PostgreSQL, src/include/access/nbtree.h, BTMetaPageData).
    """
    with index.open("r+b") as file:
        _, _, root, level = struct.unpack_from("<4I", file.read(PAGE_BYTES), 24)
        assert level, "the root is a leaf"
        file.seek(root * PAGE_BYTES + 200)
        file.write(b"\xa5" * 4000)


def spoiled(spoil: Callable[[Path], None]) -> Callable[[Site], object]:
    def plant(site: Site) -> object:
        def restore() -> None:
            site.changed = True
            site.server.start()
            wait_until(
                lambda: site.rig.site.writer.engine.ready() is None, "server is back"
            )
            site.execute(  # several leaves, however few rows there are
                "alter index dbcheck.ledger_pkey set (fillfactor = 10);"
                " reindex index dbcheck.ledger_pkey; checkpoint"
            )
            index = _index(site)
            site.server.stop()
            spoil(index)
            site.server.start()

        return site.cycle(restore=restore)

    return plant


def half_gone(site: Site) -> object:
    """Lose the entries of a hundred rows, as when an older page is read again.

    Made by an index of fewer rows in the place of the whole one, as no garbage and no
    checksum would show it.
    """

    def restore() -> None:
        site.changed = True
        site.server.start()
        wait_until(
            lambda: site.rig.site.writer.engine.ready() is None, "server is back"
        )
        site.execute(
            "create unique index fewer on dbcheck.ledger (id) where id % 10 > 0;"
            " checkpoint"
        )
        index, fewer = _index(site), _file(site, "fewer").read_bytes()
        site.execute("drop index dbcheck.fewer")  # it would be somebody's
        site.server.stop()
        index.write_bytes(fewer)
        site.server.start()

    return site.cycle(restore=restore)


def ids_without(site: Site) -> set[int]:
    """Return the ids of the rows that half_gone() took from the index."""
    rows = site.execute("select id from dbcheck.ledger where id % 10 = 0")
    return {row_id for (row_id,) in rows}


def _index(site: Site) -> Path:
    return _file(site, "ledger_pkey")


def _file(site: Site, name: str) -> Path:
    statement = f"select pg_relation_filepath('dbcheck.{name}')"
    ((path,),) = site.execute(statement)
    return site.server.data / str(path)


INDEXES = (
    Fault(
        "an index full of garbage",
        spoiled(garbage),
        FAIL,
        says="disagree: cannot read the primary key of dbcheck.ledger",
    ),
    Fault(
        "the root of an index garbled",
        spoiled(root_garbled),
        FAIL,
        says="disagree: cannot read the primary key of dbcheck.ledger",
    ),
    Fault(
        "an index that lost a tenth of its rows",
        half_gone,
        FAIL,
        says="disagree: the primary key of dbcheck.ledger has",
    ),
)


@faults(INDEXES)
@engines("own_site", "postgresql")
def test_an_index_that_disagrees_with_its_table(site: Site, fault: Fault) -> None:
    outcome = fault.plant(site)
    fault.require(outcome, site.name)
    lost = ids_without(site) if fault.plant is half_gone else set()
    losses = to_values(outcome.result)["losses"]
    assert losses.keys() == {"index-mismatch"}
    lines = (outcome.run.path / "losses.csv").read_text().splitlines()[1:]
    assert lines == [f"index-mismatch,,,{row_id},,,ledger" for row_id in sorted(lost)]
    assert outcome.found is not None
    assert outcome.found.kept == outcome.found.confirmed
