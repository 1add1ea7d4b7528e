"""What dbcheck probe latency found: what --json prints, and reports are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbcheck.model.flushes import Method, Shape, Timed
from dbcheck.probe.fio import FileioResult
from dbcheck.probe.latency import MAIN, Bucket, Spread, device_share


@dataclass(frozen=True, slots=True)
class TimingResult:
    """Writes of one shape; spread: null if there are none, which *why* explains.

    device_shares: device -> share of the time in which it wrote or flushed, whoever
    asked for that; null if it does not count its flushes.
    """

    method: Method
    size: int
    offset: int
    spread: Spread | None
    device_shares: Mapping[str, float | None]
    why: str

    @classmethod
    def of(cls, shape: Shape, timed: Timed, devices: Sequence[str]) -> TimingResult:
        """Return what *timed* shows of *devices*."""
        spread = Spread.of(timed.took_ns) if timed.took_ns else None
        shares = {name: device_share(timed, name) for name in devices}
        return cls(shape.method, shape.size, shape.offset, spread, shares, timed.why)


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier probe of the same filesystem: the medians of its main shape.

    created: when, ISO 8601, UTC.  p50_us, p99_us: of write + fdatasync of 8192 bytes.
    """

    created: str
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class FolderResult:
    """The writes in one directory.

    places: what the server keeps there, () for a directory of the user's choice.
    histogram: of write + fdatasync of 8192 bytes.  fileio: random writes of several at
    once, () if they were not asked for.  advice: what that may mean, "" if
    there is nothing.  earlier: probes of the same filesystem, the newest last.
    """

    places: tuple[str, ...]
    folder: str
    mount_point: str
    filesystem: str
    drives: tuple[str, ...]
    timings: tuple[TimingResult, ...]
    histogram: tuple[Bucket, ...]
    fileio: tuple[FileioResult, ...]
    advice: str
    earlier: tuple[Earlier, ...]

    @property
    def main(self) -> Spread | None:
        """How long write + fdatasync of 8192 bytes took, None if that is not known."""
        found = (
            each.spread
            for each in self.timings
            if Shape(each.method, each.size, each.offset) == MAIN
        )
        return next(found, None)

    @property
    def drift(self) -> float | None:
        """How many times as long as in the last probe it takes, None if unknown."""
        if self.main is None or not self.earlier or not self.earlier[-1].p50_us:
            return None
        return self.main.p50_us / self.earlier[-1].p50_us


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """The writes on one host.

    name: of the host in the inventory, "" if flags described it.  target: the server,
    "" if none was named.  error: why it could not be probed, "" if it could.
    error_id: of that.
    """

    name: str
    target: str
    host: str
    folders: tuple[FolderResult, ...]
    error: str = ""
    error_id: str = ""


@dataclass(frozen=True, slots=True)
class LatencyResults:
    """What dbcheck probe latency --json prints."""

    dbcheck: str
    created: str
    targets: tuple[LatencyResult, ...]
