"""Checks whether each commit leads to a flush of the drives, and if not, finds why.

A window is the time between two readings of the drives' counters.  In a busy window a
single session sent one commit and got its answer; in an idle window it waited.  A
commit was answered without a flush if no flush ended in its window: that needs no
statistics.  But a flush in a window may have another cause.  The idle windows show how
often that happens; from this follows how many commits without a flush may have gone
unnoticed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbcheck.model.flushes import Counts, Sample
from dbcheck.model.host import WRITE_BACK, WRITE_THROUGH, Layer, Volume
from dbcheck.model.places import BINARY_LOG, REDO_LOG, ROCKSDB_LOG, WAL
from dbcheck.model.verdict import PPM, compute_loss_ppm_max

Window = Mapping[str, Counts]  # device -> what it did in the window


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows in the order of time; in the readings, busy and idle ones take turns."""

    busy: Sequence[Window]
    idle: Sequence[Window]

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Windows:
        """Return the windows between samples; the first window is busy.

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
        """Return True if each window has this device's number of flushes."""
        counts = [window.get(device) for window in (*self.busy, *self.idle)]
        return bool(counts) and all(
            count is not None and count.flushes is not None for count in counts
        )

    def unflushed(self, devices: Sequence[str]) -> list[Window]:
        """Return the busy windows in which none of *devices* ended a flush."""
        return [window for window in self.busy if not has_flush(window, devices)]

    def unseen_ppm(self, devices: Sequence[str]) -> int:
        """Return the share of commits that may lack a flush unseen, in ppm.

        Rounded up.  A commit without a flush goes unnoticed if another flush falls into
        its window.  The idle windows bound how often that happens, and this bounds the
        share: two bounds at 95% confidence, so both hold at 90%.
        """
        disturbed = sum(has_flush(window, devices) for window in self.idle)
        noise_ppm = compute_loss_ppm_max(disturbed, len(self.idle))
        seen_ppm = PPM - noise_ppm
        if not seen_ppm:
            return PPM
        return min(PPM, -(-compute_loss_ppm_max(0, len(self.busy)) * PPM // seen_ppm))


def has_flush(window: Window, devices: Sequence[str]) -> bool:
    """Return True if one of *devices* ended a flush in *window*."""
    return any(window[name].flushes for name in devices if name in window)


def has_write(window: Window, devices: Sequence[str]) -> bool:
    """Return True if one of *devices* ended a write in *window*."""
    return any(window[name].writes for name in devices if name in window)


DOUBT_PPM = PPM // 10  # if more may be unseen, nothing can be said
# Values with which each commit flushes a log: PostgreSQL 18 manual, 19.5.1; MySQL 8.4
# manual, 17.14 and 19.1.6.4; MariaDB documentation, InnoDB System Variables.
_VALUES_THAT_WAIT = frozenset({"on", "local", "remote_write", "remote_apply"})
_SAFE_VALUES = {
    WAL: {"fsync": frozenset({"on"}), "synchronous_commit": _VALUES_THAT_WAIT},
    REDO_LOG: {"innodb_flush_log_at_trx_commit": frozenset({"1", "3"})},
    BINARY_LOG: {"sync_binlog": frozenset({"1"})},
    ROCKSDB_LOG: {"rocksdb_flush_log_at_trx_commit": frozenset({"1"})},
}
_REACHED_SHARE = 0.5  # of flushes; a layer passes all of them on, or none


class Outcome(enum.StrEnum):
    """Outcome of the windows, the worst first."""

    MISSING = "commits without a flush"
    UNCLEAR = "not known"
    FLUSHED = "each commit was flushed"

    @property
    def rank(self) -> int:
        """The place of the outcome, 0 for the worst."""
        return list(Outcome).index(self)


@dataclass(frozen=True, slots=True)
class Judged:
    """Judgement on windows, in one sentence."""

    outcome: Outcome
    sentence: str


@dataclass(frozen=True, slots=True)
class DevicePath:
    """The way from a filesystem to its drives.

    caches: drive -> whether it has a volatile cache in use, as the drive itself says;
            None if that is not known.
    """

    volume: Volume
    caches: Mapping[str, bool | None]

    @property
    def drives(self) -> list[str]:
        """The drives that the files of the filesystem lie on."""
        return self.volume.file_drives

    def layer(self, name: str) -> Layer | None:
        """Return the device of that name, None if it is not known."""
        return next((layer for layer in self.volume.layers if layer.name == name), None)


def judge_windows(
    path: DevicePath, windows: Windows, *, what: str = "commit"
) -> Judged:
    """Judge the drives below one filesystem by *windows*.

    what: what happened in each busy window, for the sentence.
    """
    drives = path.drives
    if not drives:
        return Judged(Outcome.UNCLEAR, "No drive below it is known.")
    if not windows.busy:
        return Judged(Outcome.UNCLEAR, f"No {what} was counted.")
    unflushable = [
        name for name in drives if _describe_cache(path, name) == WRITE_THROUGH
    ]
    flushable = [name for name in drives if name not in unflushable]
    judgements = []
    if flushable:
        judgements.append(_judge_flushed_drives(path, windows, flushable, what))
    if unflushable:
        judgements.append(_judge_unflushed_drives(path, windows, unflushable, what))
    return min(judgements, key=lambda judged: judged.outcome.rank)


def _judge_flushed_drives(
    path: DevicePath, windows: Windows, drives: Sequence[str], what: str
) -> Judged:
    """Judge drives that the kernel sends flushes to."""
    named, busy = ", ".join(drives), len(windows.busy)
    if unknown := [name for name in drives if not windows.counts_flushes(name)]:
        return Judged(
            Outcome.UNCLEAR,
            f"The kernel does not count the flushes of {', '.join(unknown)}.",
        )
    missing = windows.unflushed(drives)
    if missing:
        return _judge_missing_flushes(path, windows, missing, drives, what)
    if gaps := [name for name in drives if windows.unflushed([name])]:
        lacking = len(windows.unflushed(gaps[:1]))
        return Judged(
            Outcome.UNCLEAR,
            f"{gaps[0]} was not flushed for {lacking} of {busy} {what}s, and another"
            " drive was. Whether that is right depends on the layer above them.",
        )
    unseen = windows.unseen_ppm(drives)
    if unseen > DOUBT_PPM:
        return Judged(
            Outcome.UNCLEAR,
            f"{named} was flushed in the time of each {what}, but so often between them"
            " that this shows little. Try again while nothing else writes there, or"
            " with more commits.",
        )
    return Judged(
        Outcome.FLUSHED,
        f"{named} was flushed for each of {busy} {what}s, before the answer. At most"
        f" {unseen / PPM * 100:.2g}% may lack a flush of their own (90% confidence).",
    )


def _judge_missing_flushes(
    path: DevicePath,
    windows: Windows,
    missing: Sequence[Window],
    drives: Sequence[str],
    what: str,
) -> Judged:
    named, busy = ", ".join(drives), len(windows.busy)
    count = "none" if len(missing) == busy else f"{busy - len(missing)}"
    has_fua = any((layer := path.layer(name)) and layer.fua == "1" for name in drives)
    if has_fua and all(has_write(window, drives) for window in missing):
        return Judged(
            Outcome.UNCLEAR,
            f"{named} was flushed for {count} of {busy} {what}s, and written for each."
            " It takes writes that need no flush (queue/fua is 1), and the kernel does"
            " not count them apart.",
        )
    return Judged(
        Outcome.MISSING,
        f"{len(missing)} of {busy} {what}s were answered although {named} had not been"
        " flushed since they were sent. A power cut may lose them.",
    )


def _judge_unflushed_drives(
    path: DevicePath, windows: Windows, drives: Sequence[str], what: str
) -> Judged:
    """Judge drives that the kernel never flushes."""
    named, busy = ", ".join(drives), len(windows.busy)
    if unknown := [n for n in drives if any(n not in each for each in windows.busy)]:
        return Judged(
            Outcome.UNCLEAR,
            f"The kernel does not count the writes of {', '.join(unknown)}.",
        )
    without_write = [window for window in windows.busy if not has_write(window, drives)]
    if without_write:
        return Judged(
            Outcome.MISSING,
            f"{len(without_write)} of {busy} {what}s were answered although nothing had"
            f" been written to {named} since they were sent. A power cut loses them.",
        )
    caches = [path.caches.get(name) for name in drives]
    never = f"The kernel never flushes {named}: it takes the drive to have no volatile"
    if any(caches):
        return Judged(
            Outcome.MISSING,
            f"{never} write cache (queue/write_cache is write through), but it has one:"
            " dbcheck audit shows what says so. A power cut may lose commits.",
        )
    if None in caches:
        return Judged(
            Outcome.UNCLEAR,
            f"{never} write cache (queue/write_cache is write through). Each {what} was"
            " written; whether the drive keeps what was written is not known.",
        )
    return Judged(
        Outcome.FLUSHED,
        f"{named} was written for each of {busy} {what}s, before the answer. The drive"
        " says that it has no volatile write cache, so it needs no flush.",
    )


def explain_by_settings(
    found: Judged, logs: Sequence[str], settings: Mapping[str, str]
) -> Judged:
    """Return the judgement on a filesystem with *logs*, given the server's settings.

    The counters do not tell apart flushes of different logs, nor a flush right after
    the answer from one before it, as they are read a round trip later.  So flushes
    prove nothing about a server that need not wait for them.
    """
    unsafe = [
        f"{name} is {settings[name]}"
        for log in logs
        for name, safe_values in _SAFE_VALUES[log].items()
        if name in settings and settings[name] not in safe_values
    ]
    if found.outcome is not Outcome.FLUSHED or not unsafe:
        return found
    return Judged(
        Outcome.UNCLEAR,
        f"{found.sentence} But {' and '.join(unsafe)}: the flushes may be of another"
        " log, or come right after the answers.",
    )


def find_layer_that_stops_flushes(path: DevicePath, control: Windows) -> str:
    """Return the layer that stops flushes of our own file, in words, "" if none does.

    control: each of its busy windows holds a write and an fdatasync(2) of our file.
    """
    volume = path.volume
    last = f"{volume.filesystem} at {volume.mount_point} ({volume.mount_options})"
    silent: list[str] = []  # layers below *last* that count no flushes
    if judge_windows(path, control).outcome is not Outcome.MISSING:
        return ""
    for layer in volume.layers:
        if layer.write_cache == WRITE_THROUGH:
            return (
                f"{layer.name} drops them: its kernel takes it to have no volatile"
                " write cache (queue/write_cache is write through)"
            )
        if not control.counts_flushes(layer.name):
            silent += [layer.name] if layer.kind != "partition" else []
        elif _reaches_device(control, layer.name):
            last, silent = layer.name, []
        else:
            return f"{' or '.join((last, *silent))} passes none on to {layer.name}"
    return ""


def _reaches_device(windows: Windows, device: str) -> bool:
    reached = sum(has_flush(window, [device]) for window in windows.busy)
    return reached >= _REACHED_SHARE * len(windows.busy)


def _describe_cache(path: DevicePath, drive: str) -> str:
    layer = path.layer(drive)
    return layer.write_cache if layer else WRITE_BACK
