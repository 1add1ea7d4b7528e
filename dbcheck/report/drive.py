"""What is wrong with a lab's virtual drive, in words."""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.model.witness import Json

_PERSONALITIES = {
    "lying": "it ignores flushes",
    "fickle": "at some power-ons it ignores flushes",
    "failing": "it ignores flushes after the first {honest_flushes:,}",
    "reordering": "a flush covers only the newest {newest_bytes:,} bytes of what was"
    " written since the last one",
}
# Each is a fault where the field that it begins with is not 0.
_FAULTS = {
    "lost_above_bytes": "no flush covers a write of more than {lost_above_bytes:,}"
    " bytes",
    "tear_bytes": "a flush covers only what a write has in the first of the drive's"
    " blocks of {tear_bytes:,} bytes",
    "forget_bytes": "each cut leaves zeros in {forget_bytes:,} bytes from byte"
    " {forget_at_bytes:,} on",
}
_NUMBERS = (*_FAULTS, "honest_flushes", "newest_bytes", "forget_at_bytes")


def faults(drive: Json) -> Iterator[str]:
    """Yield a clause for each fault of a drive; nothing for one that has none.

    drive: a DriveSpec's values.  It may lack some, and a forged one hold anything.
    """
    numbers = {name: _number(drive.get(name)) for name in _NUMBERS}
    if (text := _PERSONALITIES.get(str(drive.get("personality")))) is not None:
        yield text.format(**numbers)
    for name, text in _FAULTS.items():
        if numbers[name]:
            yield text.format(**numbers)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
