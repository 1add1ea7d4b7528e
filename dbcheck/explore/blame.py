"""Names what of which file a crash state lacks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from dbcheck.judge.results import LostBlock
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.storage.blocks import FileBlocks
from dbcheck.model.cut import Part


class Places:
    """Which file each byte of some drives belongs to."""

    def __init__(self, files: Sequence[FileBlocks] | None) -> None:
        """files: as a lab lists them; None: their filesystem cannot be mounted."""
        self._no_file = None if files is None else ""
        self._extents: dict[int, list[tuple[int, int, int, str]]] = {}
        for file in files or ():
            own = self._extents.setdefault(file.drive, [])
            for extent in file.extents:
                own.append((extent.place, extent.length, extent.at, file.path))
        for extents in self._extents.values():
            extents.sort()
        self._begins = {
            drive: [place for place, *_ in extents]
            for drive, extents in self._extents.items()
        }

    def blocks(
        self, drive: int, recording: Recording, part: Part, cut_us: int
    ) -> list[LostBlock]:
        """Return what a lost *part* of a write was of, a block for each file.

        cut_us: when the cut comes, on the recording's clock.
        """
        number, begin, length = part
        age_ms = (cut_us - recording.times_us[number]) / 1e3
        place = recording.offsets[number] + begin
        return [
            LostBlock(drive, number, age_ms, where, size, file, at)
            for where, size, file, at in self._split(drive, place, place + length)
        ]

    def _split(
        self, drive: int, place: int, end: int
    ) -> Iterator[tuple[int, int, str | None, int]]:
        extents = self._extents.get(drive, [])
        begins = self._begins.get(drive, [])
        while place < end:
            next_one = bisect_right(begins, place)
            if next_one and place < sum(extents[next_one - 1][:2]):
                begin, length, at, file = extents[next_one - 1]
                stop = min(end, begin + length)
                yield place, stop - place, file, at + place - begin
            else:
                following = begins[next_one] if next_one < len(begins) else end
                stop = min(end, following)
                yield place, stop - place, self._no_file, -1
            place = stop
