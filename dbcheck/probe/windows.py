"""Compares what drives did in moments with a commit and in those between.

A window is the time between two readings of the counters.  In a busy one a single
session sent one commit and had its answer, in an idle one it waited.  A commit in whose
window no flush ended was answered without one: that needs no statistics.  A flush in a
window may be somebody else's, though.  The idle windows show how often that happens,
and with it how many commits without a flush may have been missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbcheck.model.flushes import Counts, Sample
from dbcheck.model.verdict import PPM, loss_ppm_max

Window = Mapping[str, Counts]  # by device


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows in the order of time, busy and idle ones in turn."""

    busy: Sequence[Window]
    idle: Sequence[Window]

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Windows:
        """Return the windows between samples, the first of them a busy one.

        A device that is missing in one of the two samples is left out.
        """
        between = [
            {
                name: counts.since(before.devices[name])
                for name, counts in after.devices.items()
                if name in before.devices
            }
            for before, after in zip(samples, samples[1:], strict=False)
        ]
        return cls(between[::2], between[1::2])

    def counts_flushes(self, device: str) -> bool:
        """Whether each window has this device's number of flushes."""
        found = [window.get(device) for window in (*self.busy, *self.idle)]
        return bool(found) and all(
            e is not None and e.flushes is not None for e in found
        )

    def unflushed(self, devices: Sequence[str]) -> list[Window]:
        """Return the busy windows in which none of *devices* ended a flush."""
        return [each for each in self.busy if not flushed(each, devices)]

    def unseen_ppm(self, devices: Sequence[str]) -> int:
        """Return how many commits may lack a flush if each busy window has one, in ppm.

        Rounded up.  A commit without a flush goes unnoticed where a flush of others
        falls into its window.  How often one does is bounded by the idle windows, and
        then what it hides: two bounds at 95% confidence, so both hold at 90%.
        """
        idle = sum(flushed(each, devices) for each in self.idle)
        noise = loss_ppm_max(idle, len(self.idle))
        seen = PPM - noise
        if not seen:
            return PPM
        return min(PPM, -(-loss_ppm_max(0, len(self.busy)) * PPM // seen))


def flushed(window: Window, devices: Sequence[str]) -> bool:
    """Whether one of *devices* ended a flush in *window*."""
    return any(window[name].flushes for name in devices if name in window)


def wrote(window: Window, devices: Sequence[str]) -> bool:
    """Whether one of *devices* ended a write in *window*."""
    return any(window[name].writes for name in devices if name in window)
