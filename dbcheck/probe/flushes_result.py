"""The result of dbcheck probe, for --json and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dbcheck.base.errors import DbcheckError
from dbcheck.model.host import Layer
from dbcheck.probe.flushes import (
    DevicePath,
    Outcome,
    Windows,
    explain_by_settings,
    find_layer_that_stops_flushes,
    has_flush,
    has_write,
    judge_windows,
)


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """Work of one block device.

    layer: e.g. "disk", "loop", "dm".  is_drive: it is one of the drives below all.
    write_cache: what the kernel assumes.  has_cache: whether it has a volatile cache in
    use, by what the drive itself says, else by a kernel that assumes one; null if that
    is not known.
    writes, bytes_written, flushes: in all commits together, null if not counted.
    without_write, unflushed: commits in whose time there was no write, no flush.
    idle_flushed: idle windows with a flush.  file_unflushed: writes of a file of our
    own in whose time there was no flush.
    """

    name: str
    layer: str
    is_drive: bool
    write_cache: str
    has_cache: bool | None
    writes: int | None
    bytes_written: int | None
    flushes: int | None
    without_write: int | None
    without_flush: int | None
    idle_flushed: int | None
    file_unflushed: int | None


@dataclass(frozen=True, slots=True)
class VolumeResult:
    """One filesystem that holds a log, and the devices below it.

    places: the logs on it, by name.  stopped_at: where flushes of a file of our own
    stop, "" if they reach the drives or too little is known.
    """

    places: tuple[str, ...]
    mount_point: str
    filesystem: str
    outcome: Outcome
    sentence: str
    file_outcome: Outcome
    file_sentence: str
    stopped_at: str
    devices: tuple[DeviceResult, ...]

    @classmethod
    def of(
        cls,
        path: DevicePath,
        commits: Windows,
        file: Windows,
        logs: Sequence[str],
        settings: Mapping[str, str],
    ) -> VolumeResult:
        """Judge one filesystem by the windows of commits and of a file.

        settings: of the server.
        """
        found, control = (
            judge_windows(path, commits),
            judge_windows(path, file, what="write"),
        )
        found = explain_by_settings(found, logs, settings)
        return cls(
            places=tuple(logs),
            mount_point=path.volume.mount_point,
            filesystem=path.volume.filesystem,
            outcome=found.outcome,
            sentence=found.sentence,
            file_outcome=control.outcome,
            file_sentence=control.sentence,
            stopped_at=find_layer_that_stops_flushes(path, file),
            devices=tuple(
                _make_device_result(path, layer, commits, file)
                for layer in path.volume.layers
                if layer.kind != "partition"
            ),
        )

    @property
    def server_does_not_ask(self) -> bool:
        """True if flushes get through, and the server's commits do without."""
        return (self.outcome, self.file_outcome) == (Outcome.MISSING, Outcome.FLUSHED)


@dataclass(frozen=True, slots=True)
class FlushesResult:
    """Flushes of one server's drives by its commits.

    name: of the host in the inventory, "" if flags described it.
    commits, idle: how many windows there were with a commit, and without.
    commit_us: the median of what a commit took, microseconds, seen by the client.
    count_us: the median of what it took to read the counters after it.
    unread: logs of which nothing was counted -> why.
    error: why it could not be probed, "" if it could.  error_id: of that.
    """

    name: str
    target: str
    server: str
    host: str
    commits: int
    idle: int
    commit_us: int
    count_us: int
    volumes: tuple[VolumeResult, ...]
    error: str = ""
    error_id: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def failed(cls, name: str, target: str, error: DbcheckError) -> FlushesResult:
        """Return the result of a probe that could not be made."""
        return cls(name, target, "", "", 0, 0, 0, 0, (), error.with_hint, error.id)

    @property
    def outcome(self) -> Outcome:
        """The worst of all filesystems; not known for logs that were not read."""
        outcomes = [volume.outcome for volume in self.volumes]
        outcomes += [Outcome.UNCLEAR for _ in self.unread]
        return min(outcomes, key=lambda outcome: outcome.rank, default=Outcome.UNCLEAR)


@dataclass(frozen=True, slots=True)
class FlushesResults:
    """Output of dbcheck probe flushes --json."""

    dbcheck: str
    created: str
    targets: tuple[FlushesResult, ...]


def _make_device_result(
    path: DevicePath, layer: Layer, commits: Windows, file: Windows
) -> DeviceResult:
    name = layer.name
    counts = [window[name] for window in commits.busy if name in window]
    is_counted = bool(counts) and commits.counts_flushes(name)
    return DeviceResult(
        name=name,
        layer=layer.kind,
        is_drive=name in path.drives,
        write_cache=layer.write_cache,
        has_cache=path.caches.get(name),
        writes=sum(count.writes for count in counts) if counts else None,
        bytes_written=sum(count.bytes_written for count in counts) if counts else None,
        flushes=sum(count.flushes or 0 for count in counts) if is_counted else None,
        without_write=sum(not has_write(window, [name]) for window in commits.busy)
        if counts
        else None,
        without_flush=len(commits.unflushed([name])) if is_counted else None,
        idle_flushed=sum(has_flush(window, [name]) for window in commits.idle)
        if is_counted
        else None,
        file_unflushed=(
            len(file.unflushed([name])) if file.counts_flushes(name) else None
        ),
    )
