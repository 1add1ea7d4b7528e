"""Reads logs of dm-log-writes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dbcheck.lab.drive.logwrites import encode_log
from dbcheck.lab.drive.recording import Recording

SIZE = 1 << 20
FLUSH, MARK = 1, 8  # LOG_FLUSH_FLAG, LOG_MARK_FLAG


def write_log(
    recording: Recording,
    marks: Iterable[tuple[int, str]],
    path: Path,
) -> int:
    """Write a recording as a log; return how many of *marks* are in it."""
    count, content = encode_log(recording, marks)
    path.write_bytes(b"".join(content))
    return count


@dataclass(frozen=True)
class Entry:
    sector: int
    flags: int
    content: bytes  # what is written, or a mark's text


@dataclass(frozen=True)
class Log:
    sector_bytes: int
    entries: list[Entry]

    @property
    def marks(self) -> list[str]:
        return [entry.content.decode() for entry in self.entries if entry.flags == MARK]

    def at(self, found: Callable[[Entry], bool]) -> list[int]:
        return [n for n, entry in enumerate(self.entries) if found(entry)]

    @property
    def flushes(self) -> list[int]:
        return self.at(lambda entry: entry.flags == FLUSH)

    def mark(self, text: str) -> int:
        return self.at(lambda entry: entry == Entry(0, MARK, text.encode()))[0]

    def replayed(self, end: int) -> bytes:
        """Return an empty device of SIZE bytes after the first *end* entries."""
        device = bytearray(SIZE)
        for entry in self.entries[:end]:
            if not entry.flags:
                start = entry.sector * self.sector_bytes
                device[start : start + len(entry.content)] = entry.content
        return bytes(device)


def read(path: Path) -> Log:
    """Read a log as drivers/md/dm-log-writes.c describes it."""
    raw = path.read_bytes()
    magic, version, count, size = struct.unpack_from("<QQQI", raw)
    assert (magic, version) == (0x6A736677736872, 1)
    assert not any(raw[28:size])
    entries, at = [], size
    for _ in range(count):
        sector, sectors, flags, length = struct.unpack_from("<QQQQ", raw, at)
        rest, at = raw[at + 32 : at + size], at + size
        # As replay-log checks an entry: log_entry_valid().
        assert flags or sectors
        assert length < len(rest)
        assert not any(rest[length:])
        content = raw[at : at + sectors * size] if sectors else rest[:length]
        assert bool(length) == (flags == MARK)
        entries.append(Entry(sector, flags, content))
        at += sectors * size
    assert at == len(raw)
    return Log(size, entries)
