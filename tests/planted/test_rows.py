"""Rows that are not as the server said: each found, named and classed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dbcheck.load.sessions import commit
from dbcheck.rows.acks import Key
from dbcheck.rows.loss import LossKind
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.schedule import Schedule
from tests.kit.definition import checksum
from tests.kit.operations import insert
from tests.kit.rigs import listed_ids, store_manifest
from tests.planted.fault import FAIL, INCONCLUSIVE, PASS, Fault, engines, faults
from tests.planted.one_cut import Named, OneCut

pytestmark = pytest.mark.planted

TAIL, HOLE = LossKind.MISSING_TAIL, LossKind.MISSING_HOLE
CORRUPT, TWICE = LossKind.CORRUPT, LossKind.DUPLICATE
UNEXPECTED = LossKind.UNEXPECTED
OTHER_EPOCH = 4711  # of no cycle here
FAR = 10**6  # a seq that no session reached


def nothing(cut: OneCut) -> list[Named]:
    return []


def hole(cut: OneCut) -> list[Named]:
    cut.delete(1, 5)
    return [(HOLE, 1, 5)]


def last_of_a_session(cut: OneCut) -> list[Named]:
    last = cut.load.acked[1]
    table = cut.bench.table
    where = "where epoch = %s and session = 1 and seq >= %s"
    cut.bench.execute(f"delete from {table} {where}", cut.epoch, last)
    return [(TAIL, 1, last)]


def last_of_all(cut: OneCut) -> list[Named]:
    """Delete what came last in the table, as a drive without its cache does."""
    keys = _last(cut, 20)
    cut.bench.execute(f"delete from {cut.bench.table} where id >= %s", keys[0][0])
    return _tail(cut, keys)


def flipped_bit(cut: OneCut) -> list[Named]:
    row = cut.rows.row(2, 3)
    changed = bytes([row.payload[0] ^ 0x80]) + row.payload[1:]
    cut.change("payload = %s", 2, 3, changed)
    return [(CORRUPT, 2, 3)]


def cut_short(cut: OneCut) -> list[Named]:
    cut.change("payload = %s", 2, 3, cut.rows.row(2, 3).payload[:-1])
    return [(CORRUPT, 2, 3)]


def emptied(cut: OneCut) -> list[Named]:
    cut.change("payload = %s", 2, 3, b"")
    return [(CORRUPT, 2, 3)]


def other_checksum(cut: OneCut) -> list[Named]:
    cut.change("checksum = checksum + 1", 3, 4)
    return [(CORRUPT, 3, 4)]


def stale_content(cut: OneCut) -> list[Named]:
    """Give a row a content that is whole, with a checksum that fits, but another."""
    now = cut.rows.row(3, 4).payload
    content = bytes([now[0] ^ 0x80]) + now[1:]
    right = checksum(Key(cut.epoch, 3, 4), 0, content)
    cut.change("payload = %s, checksum = %s", 3, 4, content, right)
    return [(CORRUPT, 3, 4)]


def swapped_payloads(cut: OneCut) -> list[Named]:
    rows = [cut.rows.row(1, 2), cut.rows.row(2, 2)]
    cut.change("payload = %s", 1, 2, rows[1].payload)
    cut.change("payload = %s", 2, 2, rows[0].payload)
    return [(CORRUPT, 1, 2), (CORRUPT, 2, 2)]


def swapped_contents(cut: OneCut) -> list[Named]:
    rows = [cut.rows.row(1, 2), cut.rows.row(2, 2)]
    for row, other in (rows, reversed(rows)):
        cut.change(
            "payload = %s, checksum = %s",
            row.session,
            row.seq,
            other.payload,
            other.checksum,
        )
    return [(CORRUPT, 1, 2), (CORRUPT, 2, 2)]


def other_seq(cut: OneCut) -> list[Named]:
    cut.change("seq = %s", 1, 6, FAR)
    return [(HOLE, 1, 6), (UNEXPECTED, 1, FAR)]


def other_epoch(cut: OneCut) -> list[Named]:
    cut.change("epoch = %s", 1, 6, OTHER_EPOCH)
    return [(HOLE, 1, 6), (UNEXPECTED, -1, -1)]


def other_id(cut: OneCut) -> list[Named]:
    cut.change("id = id + 1000000", 1, 6)
    return [(CORRUPT, 1, 6)]


def garbage(cut: OneCut) -> list[Named]:
    cut.insert(OTHER_EPOCH, 1, 1, b"garbage", 1)
    return [(UNEXPECTED, -1, -1)]


def garbage_of_this_epoch(cut: OneCut) -> list[Named]:
    cut.insert(cut.epoch, 3, FAR, b"garbage", 1)
    return [(UNEXPECTED, 3, FAR)]


def never_sent(cut: OneCut) -> list[Named]:
    """Insert exactly what the schedule computes, for a key that was not reached."""
    seq = cut.load.sent[3] + 1
    row = cut.rows.row(3, seq)
    cut.insert(cut.epoch, 3, seq, row.payload, row.checksum)
    return [(UNEXPECTED, 3, seq)]


def of_another_run(cut: OneCut) -> list[Named]:
    cut.insert(OTHER_EPOCH, 1, 1, b"whole", _whole(OTHER_EPOCH))
    return []


def twice(cut: OneCut) -> list[Named]:
    row = cut.rows.row(1, 2)
    cut.insert(cut.epoch, 1, 2, row.payload, row.checksum)
    return [(TWICE, 1, 2)]


def id_given_to_another_run(cut: OneCut) -> list[Named]:
    row_id = cut.delete(1, 5)
    cut.insert(OTHER_EPOCH, 1, 1, b"whole", _whole(OTHER_EPOCH))
    _move(cut, OTHER_EPOCH, row_id)
    return [(HOLE, 1, 5)]


def id_given_to_garbage(cut: OneCut) -> list[Named]:
    row_id = cut.delete(1, 5)
    cut.insert(OTHER_EPOCH, 1, 1, b"garbage", 1)
    _move(cut, OTHER_EPOCH, row_id)
    return [(HOLE, 1, 5), (UNEXPECTED, -1, -1)]


def id_given_to_an_earlier_run(cut: OneCut) -> list[Named]:
    """Hide a hole behind the epoch of an earlier cycle."""
    earlier = cut.first.manifest.epoch
    row_id = cut.delete(1, 5)
    cut.insert(earlier, 1, FAR, b"whole", _whole(earlier, FAR))
    table = cut.bench.table
    cut.bench.execute(f"update {table} set id = %s where seq = %s", row_id, FAR)
    return [(HOLE, 1, 5)]


def ids_counted_again(cut: OneCut) -> list[Named]:
    """Lose the tail and its ids' counter; the next run's rows take those ids."""
    keys = _last(cut, 20)
    first_id, table = keys[0][0], cut.bench.table
    cut.bench.execute(f"delete from {table} where id >= %s", first_id)
    if cut.bench.engine == "postgresql":
        restart = f"alter table {table} alter column id restart with {first_id}"
    else:
        restart = f"alter table {table} auto_increment = {first_id}"
    cut.bench.execute(restart)
    next_run = Schedule(99, OTHER_EPOCH, (128,))
    session = cut.bench.rig.site.writer.engine.open_session((INSERT,))
    again = [commit(session, insert(next_run.row(1, seq))) for seq in range(1, 21)]
    session.close()
    assert again[0] == first_id
    return _tail(cut, keys)


def earlier_row_gone(cut: OneCut) -> list[Named]:
    cut.bench.execute(
        f"delete from {cut.bench.table} where epoch = %s and session = 1 and seq = 1",
        cut.first.manifest.epoch,
    )
    return []  # counted, and listed by no key


def earlier_row_changed(cut: OneCut) -> list[Named]:
    cut.bench.execute(
        f"update {cut.bench.table} set payload = %s"
        " where epoch = %s and session = 1 and seq = 1",
        b"changed",
        cut.first.manifest.epoch,
    )
    return []  # counted by no kind: it may have been so before


def earlier_row_and_own_row(cut: OneCut) -> list[Named]:
    earlier_row_changed(cut)
    return hole(cut)


def earlier_row_changed_once_read(cut: OneCut) -> list[Named]:
    """Change a row of which a reading of the same campaign shows that it was sound."""
    epoch, manifest = cut.first.manifest.epoch, cut.second.run.manifest()
    tables = {
        name: replace(table, sound=(epoch,)) for name, table in manifest.tables.items()
    }
    changed = replace(manifest, tables=tables)
    store_manifest(cut.second.run, changed)
    earlier_row_changed(cut)
    return [(CORRUPT, -1, -1)]


def earlier_row_weighs_less(cut: OneCut) -> list[Named]:
    """Change what was weighed before the load, too."""
    earlier_row_changed(cut)
    cut.bench.execute(
        f"update {cut.bench.table} set checksum = 1"
        " where epoch = %s and session = 1 and seq = 1",
        cut.first.manifest.epoch,
    )
    return [(CORRUPT, -1, -1)]


def earlier_row_replaced(cut: OneCut) -> list[Named]:
    """Lose a row of an earlier cycle; another one of it stands twice, with its id."""
    where = "epoch = %s and session = 1 and seq = %s"
    epoch, table = cut.first.manifest.epoch, cut.bench.table
    ((lost_id,),) = cut.bench.execute(f"select id from {table} where {where}", epoch, 1)
    cut.bench.execute(f"delete from {table} where id = %s", lost_id)
    columns = "epoch, session, seq, part, payload, checksum"
    cut.bench.execute(
        f"insert into {table} (id, {columns}) select {lost_id}, {columns} from {table}"
        f" where {where}",
        epoch,
        2,
    )
    return []  # counted, and listed by no key


ROWS = (
    Fault("nothing", nothing, PASS),
    Fault("a row gone", hole, FAIL, {"missing-hole": 1}),
    Fault("the last row of a session gone", last_of_a_session, FAIL, {TAIL.value: 1}),
    Fault("the last rows gone", last_of_all, FAIL, {"missing-tail": -1}),
    Fault("a bit of the payload flipped", flipped_bit, FAIL, {"corrupt": 1}),
    Fault("the payload a byte short", cut_short, FAIL, {"corrupt": 1}),
    Fault("the payload empty", emptied, FAIL, {"corrupt": 1}),
    Fault("another checksum", other_checksum, FAIL, {"corrupt": 1}),
    Fault("a whole but other content", stale_content, FAIL, {"corrupt": 1}),
    Fault("the payloads of two rows swapped", swapped_payloads, FAIL, {"corrupt": 2}),
    Fault("the contents of two rows swapped", swapped_contents, FAIL, {"corrupt": 2}),
    Fault("another seq", other_seq, FAIL, {HOLE.value: 1, UNEXPECTED.value: 1}),
    Fault("another epoch", other_epoch, FAIL, {HOLE.value: 1, UNEXPECTED.value: 1}),
    Fault(
        "another id",
        other_id,
        FAIL,
        {"corrupt": 1},
    ),
    Fault("garbage", garbage, FAIL, {"unexpected": 1}),
    Fault("garbage of this epoch", garbage_of_this_epoch, FAIL, {"unexpected": 1}),
    Fault("a row that nobody sent", never_sent, FAIL, {"unexpected": 1}),
    Fault("a row of another run", of_another_run, INCONCLUSIVE, {}, "a second dbcheck"),
    Fault("a row twice", twice, FAIL, {"duplicate": 1}),
    Fault("an id given to another run", id_given_to_another_run, FAIL, {HOLE.value: 1}),
    Fault(
        "an id given to garbage",
        id_given_to_garbage,
        FAIL,
        {HOLE.value: 1, UNEXPECTED.value: 1},
    ),
    Fault(
        "an id given to an earlier run",
        id_given_to_an_earlier_run,
        FAIL,
        {HOLE.value: 1},
    ),
    Fault("ids counted again", ids_counted_again, FAIL, {"missing-tail": -1}),
    Fault("an earlier row gone", earlier_row_gone, FAIL, {"missing-hole": 1}),
    Fault(
        "an earlier row changed, perhaps before the load",
        earlier_row_changed,
        INCONCLUSIVE,
        says="1 row of an earlier run does not have the content that was written",
    ),
    Fault(
        "an earlier row changed, perhaps before the load, and a row gone",
        earlier_row_and_own_row,
        FAIL,
        {"missing-hole": 1},
        says="the server lost 1 of the ",
    ),
    Fault(
        "an earlier row changed that was read before",
        earlier_row_changed_once_read,
        FAIL,
        {"corrupt": 1},
    ),
    Fault("an earlier row weighs less", earlier_row_weighs_less, FAIL, {"corrupt": 1}),
    Fault(
        "an earlier row replaced",
        earlier_row_replaced,
        FAIL,
        {"missing-hole": 1},
    ),
    Fault("nothing, once more", nothing, PASS),
)


@pytest.mark.wide_with("mariadb")
@faults(ROWS)
@engines("one_cut")
def test_rows(cut: OneCut, fault: Fault) -> None:
    planted: Sequence[Named] = fault.plant(cut)
    outcome = cut.bench.judge(cut.second)
    fault.require(outcome, cut.bench.engine)
    assert outcome.found is not None
    assert sorted(_names(planted)) == sorted(_names(outcome.found.losses))
    assert listed_ids(cut.second.run) == {loss.row_id for loss in outcome.found.losses}


def _names(losses: Sequence[tuple[object, ...]]) -> list[tuple[str, ...]]:
    return [tuple(str(word) for word in loss[:3]) for loss in losses]


def _whole(epoch: int, seq: int = 1) -> int:
    """Return the checksum of a row of session 1 that holds b"whole"."""
    fits = checksum(Key(epoch, 1, seq), 0, b"whole")
    assert fits != zlib.crc32(b"whole")
    return fits


def _move(cut: OneCut, epoch: int, row_id: int) -> None:
    table = cut.bench.table
    cut.bench.execute(f"update {table} set id = %s where epoch = %s", row_id, epoch)


def _last(cut: OneCut, rows: int) -> list[tuple[int, int, int]]:
    """Return id, session and seq of the last rows of the table, in order."""
    found = cut.bench.execute(
        f"select id, session, seq from {cut.bench.table} order by id desc limit {rows}"
    )
    return sorted(found)


def _tail(cut: OneCut, keys: Sequence[tuple[int, int, int]]) -> list[Named]:
    """Return what must be said of rows that are gone; unacked ones are no loss."""
    acked = cut.load.acked
    return [(TAIL, session, seq) for _, session, seq in keys if seq <= acked[session]]
