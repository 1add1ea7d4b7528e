"""Damage to the pages of an InnoDB index that no checksum shows.

storage/innobase/include/page0types.h, rem0rec.h: behind the header of 38 bytes a page
has its level at 64 and its index at 66; the first record, infimum, is at 99; the two
bytes before a record lead to the next one, and the fifth has the mark of a deleted one.
"""

from __future__ import annotations

import struct
from pathlib import Path

from tests.findings.innodb_pages import INDEX, Page, overwrite, pages, sealed

_LEVEL_AT, _INDEX_AT = 64, 66
_INFIMUM, _SUPREMUM = 99, 112
_INFO_BEFORE, _NEXT_BEFORE = 5, 2
_DELETED = 0x20
_PREVIOUS_AT = 8
_NONE = 0xFFFFFFFF


def leaves(file: Path, *, last: bool) -> list[Page]:
    """Return the leaves of a table's first index, or of its last one."""
    found: dict[int, list[Page]] = {}
    for page in pages(file):
        (level,) = struct.unpack_from(">H", page.content, _LEVEL_AT)
        (index,) = struct.unpack_from(">Q", page.content, _INDEX_AT)
        if page.kind == INDEX and level == 0:
            found.setdefault(index, []).append(page)
    return found[max(found) if last else min(found)]


def delete_records(file: Path, *, full: bool, most: int) -> int:
    """Mark up to so many records of a table's last index as deleted; return how many.

    full: see sealed().
    """
    marked = 0
    for page in leaves(file, last=True):
        content = bytearray(page.content)
        at = _next(content, _INFIMUM)
        while at != _SUPREMUM and marked < most:
            if not content[at - _INFO_BEFORE] & _DELETED:
                content[at - _INFO_BEFORE] |= _DELETED
                marked += 1
            at = _next(content, at)
        overwrite(file, page.slot, sealed(bytes(content), full=full))
    return marked


def break_link(file: Path, *, full: bool) -> None:
    """Have a leaf of the table itself name another one before it than the one there is.

    Whoever reads forwards does not follow that link.
    """
    page = next(page for page in leaves(file, last=False) if _previous(page) != _NONE)
    content = bytearray(page.content)
    struct.pack_into(">I", content, _PREVIOUS_AT, page.number)
    overwrite(file, page.slot, sealed(bytes(content), full=full))


def _previous(page: Page) -> int:
    return int(struct.unpack_from(">I", page.content, _PREVIOUS_AT)[0])


def _next(content: bytearray, at: int) -> int:
    (offset,) = struct.unpack_from(">H", content, at - _NEXT_BEFORE)
    return int(at + offset) & 0xFFFF
