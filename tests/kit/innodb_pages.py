"""InnoDB's pages as bytes: what a page says of itself, and whether it is whole.

storage/innobase/include/fil0types.h: number at 4, LSN at 16, type at 24, space at 34;
the last eight bytes repeat checksum and LSN.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 16384
INDEX = 17855
_HEAD = struct.Struct(">4sI8xQH8xI")
_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected


def _table() -> list[int]:
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc32c(content: bytes) -> int:
    """Return the CRC-32C of *content* (RFC 3720, appendix B.4)."""
    value = 0xFFFFFFFF
    for byte in content:
        value = _TABLE[(value ^ byte) & 255] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Page:
    """One page, or one copy of it.

    file, slot: where it was read; slot counts pages from the file's start.
    """

    file: Path
    slot: int
    content: bytes

    @property
    def number(self) -> int:
        """The page's number in its tablespace, as it says itself."""
        return int(_HEAD.unpack_from(self.content)[1])

    @property
    def lsn(self) -> int:
        """The log sequence number of its last change."""
        return int(_HEAD.unpack_from(self.content)[2])

    @property
    def kind(self) -> int:
        """FIL_PAGE_TYPE."""
        return int(_HEAD.unpack_from(self.content)[3])

    @property
    def space(self) -> int:
        """The tablespace's number, as the page says itself."""
        return int(_HEAD.unpack_from(self.content)[4])

    def whole(self) -> bool:
        """Tell whether its checksum is right: MySQL's crc32, or MariaDB's full one."""
        content = self.content
        if not any(content[:64]):
            return False
        end = int.from_bytes(content[-4:], "big")
        if crc32c(content[:-4]) == end:
            return True
        checksum = crc32c(content[4:26]) ^ crc32c(content[38:-8])
        same_lsn = content[20:24] == content[-4:]
        return same_lsn and checksum.to_bytes(4, "big") == content[:4] == content[-8:-4]


def sealed(content: bytes, *, full: bool) -> bytes:
    """Return the page with the checksum that fits it: see Page.whole().

    full: as MariaDB computes it by default from 10.5 on.
    """
    if full:
        return content[:-4] + crc32c(content[:-4]).to_bytes(4, "big")
    checksum = crc32c(content[4:26]) ^ crc32c(content[38:-8])
    mark = checksum.to_bytes(4, "big")
    return mark + content[4:-8] + mark + content[-4:]


def pages(file: Path, slots: range | None = None) -> Iterator[Page]:
    """Yield the pages of a file, or those in *slots*."""
    content = file.read_bytes()
    for slot in slots or range(len(content) // PAGE_BYTES):
        at = slot * PAGE_BYTES
        yield Page(file, slot, content[at : at + PAGE_BYTES])


def overwrite(file: Path, slot: int, content: bytes, at: int = 0) -> None:
    """Write *content* into a page, *at* so many bytes from its start."""
    with file.open("r+b") as opened:
        opened.seek(slot * PAGE_BYTES + at)
        opened.write(content)
