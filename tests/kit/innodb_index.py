"""Damage to the pages of an InnoDB index that no checksum shows.

storage/innobase/include/page0types.h, rem0rec.h: a page has the number of its
records at 54, its level at 64 and its index at 66; the first record, infimum, is at 99;
the two bytes before a record lead to the next one, and the fifth has the mark of a
deleted one.
"""

from __future__ import annotations

import struct
from pathlib import Path

from tests.kit.innodb_pages import INDEX, Page, overwrite, pages, sealed

_RECORDS_AT, _LEVEL_AT, _INDEX_AT = 54, 64, 66
_INFIMUM, _SUPREMUM = 99, 112
_INFO_BEFORE, _NEXT_BEFORE = 5, 2
_DELETED = 0x20
_KEY_BYTES = 8  # of the ledger's id; the number of the leaf follows it


def _indexes(file: Path, level: int) -> list[list[Page]]:
    """Return the pages of that level, for each index; the table's own is the first."""
    found: dict[int, list[Page]] = {}
    for page in pages(file):
        if page.kind == INDEX:
            (index,) = struct.unpack_from(">Q", page.content, _INDEX_AT)
            (own,) = struct.unpack_from(">H", page.content, _LEVEL_AT)
            if own == level:
                found.setdefault(index, []).append(page)
    return [found[index] for index in sorted(found)]


def delete_records(file: Path, *, full: bool, most: int) -> int:
    """Mark up to so many records of a table's last index as deleted; return how many.

    full: see sealed().
    """
    marked = 0
    for page in _indexes(file, 0)[-1]:
        content = bytearray(page.content)
        at = _next(content, _INFIMUM)
        while at != _SUPREMUM and marked < most:
            if not content[at - _INFO_BEFORE] & _DELETED:
                content[at - _INFO_BEFORE] |= _DELETED
                marked += 1
            at = _next(content, at)
        overwrite(file, page.slot, sealed(bytes(content), full=full))
    return marked


def move_boundary(file: Path, *, full: bool) -> None:
    """Have the table's root lead to its second leaf only for ids above its first.

    The second: all that the last leaf holds may have been in flight at a cut, and is
    then rolled back, at times only after the next start of the server.
    Whoever reads one leaf after the other does not notice; a search for that id does.
    The key in the root may be smaller than the leaf's first id: the row that was first
    when the leaf was made is gone if its transaction was rolled back.
    """
    (root,) = _indexes(file, 1)[0]
    content = bytearray(root.content)
    at = _next(content, _next(content, _INFIMUM))
    assert at != _SUPREMUM
    (number,) = struct.unpack_from(">I", content, at + _KEY_BYTES)
    leaf = next(page for page in _indexes(file, 0)[0] if page.number == number)
    first = _next(bytearray(leaf.content), _INFIMUM)
    (row_id,) = struct.unpack_from(">Q", leaf.content, first)
    struct.pack_into(">Q", content, at, row_id + 1)
    overwrite(file, root.slot, sealed(bytes(content), full=full))


def miscount(file: Path, *, full: bool) -> None:
    """Have the table's leaves say that they have one record more than they have.

    No reading of rows looks at that number.
    """
    for page in _indexes(file, 0)[0]:
        content = bytearray(page.content)
        (count,) = struct.unpack_from(">H", content, _RECORDS_AT)
        struct.pack_into(">H", content, _RECORDS_AT, count + 1)
        overwrite(file, page.slot, sealed(bytes(content), full=full))


def _next(content: bytearray, at: int) -> int:
    (offset,) = struct.unpack_from(">H", content, at - _NEXT_BEFORE)
    return int(at + offset) & 0xFFFF
