"""Shows one crash state of a recording after the other on a drive."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.lab.drive.model import Drive
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cut import Part

_NO_LIMIT = 1 << 60

Shown = tuple[int, list[Part]]  # how many writes are whole; parts of later ones


class Replay:
    """A drive that keeps all that is written to it as if it were cached.

    So what a server writes in its recovery is taken back before the next state, and a
    state costs no more than what differs from the one before.
    """

    def __init__(self, recording: Recording) -> None:
        """Make the drive, which holds what it held when the recording began."""
        keeps_all = DriveSpec(
            personality="lying",
            size_bytes=recording.size_bytes,
            flush_ms=0.0,
            destage_age_s=0.0,
            cache_bytes=_NO_LIMIT,
        )
        self.drive = Drive(keeps_all)
        self._recording = recording
        for offset, content in recording.base():
            self.drive.write(offset, bytes(content), 0.0)
        self.drive.flush_all()
        self._stable = self.drive.destaged
        self._whole = 0  # writes of the recording that are on the drive

    def show(self, whole: int, parts: Sequence[Part]) -> None:
        """Put the first *whole* writes on the drive, and then *parts* of later ones.

        Raise ValueError, with nothing changed, if the recording has no such writes, or
        if something was made stable on the drive, which cannot be taken back.
        """
        recording = self._recording
        if self.drive.destaged != self._stable:
            raise ValueError("the drive was flushed or cut: replay on a new one")
        if not 0 <= whole <= len(recording):
            raise ValueError(f"the recording has {len(recording)} writes, not {whole}")
        for number, begin, length in parts:
            inside = whole <= number < len(recording)
            if (
                not inside
                or not 0 <= begin < begin + length <= recording.lengths[number]
            ):
                raise ValueError(f"no part {begin}+{length} of a later write {number}")
        self._whole = min(whole, self._whole)
        self.drive.undo_newest(self._whole)
        for number in range(self._whole, whole):
            self._write(number, 0, recording.lengths[number])
        self._whole = whole
        for part in parts:
            self._write(*part)

    def _write(self, number: int, begin: int, length: int) -> None:
        write = self._recording.write(number)
        content = bytes(write.content[begin : begin + length])
        self.drive.write(write.offset + begin, content, 0.0)
