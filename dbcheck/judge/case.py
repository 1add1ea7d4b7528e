"""Everything that a judgement is based on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dbcheck.core.cut import Cut, Rung
from dbcheck.core.depth import Depth, DepthFinding
from dbcheck.core.reconcile import Reconciliation
from dbcheck.core.records import AfterRecord, LoadRecord, Manifest, RestoreRecord
from dbcheck.core.target import HostAfter, HostBefore
from dbcheck.core.witnessed import LogFacts
from dbcheck.judge.volumes import (
    VolumeDepth,
    least_depth,
    page_cache_kept,
    shallowest,
    volume_depths,
)


@dataclass(frozen=True)
class Case:
    """The records of one cycle, and what was computed from its log and its rows.

    load:    None if the client was lost before it could store one.
    restore: None if the power is not known to be back.
    logs:    what each log of the witness holds; () if they are not known.
    damage:  why the witness's log proves nothing, "" if it is whole.
    found:   the fate of the acks and rows; None if no rows are compared.
    """

    manifest: Manifest
    load: LoadRecord | None
    restore: RestoreRecord | None
    after: AfterRecord
    logs: tuple[LogFacts, ...] = ()
    damage: str = ""
    found: Reconciliation | None = None

    @property
    def cut(self) -> Cut | None:
        """What the switch reported of its cut, None if it is not known to have cut."""
        return self.load.cut if self.load else None

    @property
    def off_s(self) -> float | None:
        """Seconds without power, None if the switch did not measure them."""
        return self.restore.off_s if self.restore else None

    @property
    def before(self) -> HostBefore | None:
        """What the target's host reported before the load, None if it was not asked."""
        return self.manifest.host

    @property
    def host(self) -> HostAfter | None:
        """What the target's host reported after recovery, None if it was not asked."""
        return self.after.host

    @cached_property
    def depths(self) -> list[VolumeDepth]:
        """How deep the cut went on each volume; [] if that was not measured."""
        load = self.load
        return volume_depths(
            self.before,
            load.canaries if load else None,
            load.canaries_elsewhere if load else (),
            self.host,
            self.manifest.cut_class,
        )

    @cached_property
    def depth(self) -> DepthFinding | None:
        """How deep the cut went for all places, None if that was not measured."""
        return least_depth(self.depths, self.before.facts if self.before else None)

    @property
    def shown_depth(self) -> Depth | None:
        """The depth that all places show, None if it is not known."""
        return self.depth.depth if self.depth else None

    @cached_property
    def shallowest(self) -> DepthFinding | None:
        """The least depth that is known of any volume: it describes the host alone."""
        return shallowest(self.depths)

    @property
    def page_cache_kept(self) -> bool:
        """Whether the cut is known to have destroyed the server's memory alone."""
        return page_cache_kept(self.depths) or self.manifest.rung is Rung.PROCESS
