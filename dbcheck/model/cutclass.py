"""What kind of cut a switch makes, as far as that is declared, and what it may show."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from dbcheck.model.depth import Depth


class CutClass(enum.Enum):
    """What loses its power; the value is its name in inventories and reports.

    A volatile cache in a drive is lost only if the drive's own supply falls.  A BMC may
    leave standby power, a backplane or a RAID controller supplied; a hypervisor and a
    reset leave the drives alone (docs/power.md).  A failover is all that a managed
    service offers: whether anything loses power in it is the provider's affair.
    """

    AC = "AC"
    DC_RAIL = "DC rail"
    BMC_OFF = "BMC off"
    HYPERVISOR_KILL = "hypervisor kill"
    RESET = "reset"
    FAILOVER = "failover"
    PROCESS = "process"
    LAB_DRIVE = "lab drive"
    UNKNOWN = "unknown"

    @property
    def description(self) -> str:
        """Return what the cut was, to come after "this"."""
        return _DESCRIPTIONS[self]

    @property
    def reaches_drives(self) -> bool:
        """Say whether a cut reaches the drives' power, as assumed and not measured."""
        return self in (CutClass.AC, CutClass.DC_RAIL, CutClass.LAB_DRIVE)

    @property
    def keeps_power(self) -> bool:
        """Say whether nothing is ever without power, not even for a moment."""
        return self in (
            CutClass.HYPERVISOR_KILL,
            CutClass.RESET,
            CutClass.FAILOVER,
            CutClass.PROCESS,
        )

    def leaves_open(self, depth: Depth | None) -> str:
        """Return what a cut does not test; "" if it tests all down to the drives.

        depth: how deep it was seen to go, None if that was not measured.
        """
        deepest = depth is Depth.DRIVE and not self.keeps_power
        if deepest or self is CutClass.LAB_DRIVE:
            return ""
        if self in (CutClass.AC, CutClass.DC_RAIL):
            return "" if depth else "its depth was not measured"
        return _OPEN[self]


def shown(cuts: Iterable[tuple[str, str]]) -> str:
    """Return what the cuts of several cycles were, and what each class leaves open.

    cuts: of each cycle the CutClass.value, "" where it is not known, and the
    Depth.value that was seen, "" where none was measured.
    """
    seen: dict[CutClass, set[Depth]] = {}
    for name, depth in cuts:
        if name:
            of_class = seen.setdefault(CutClass(name), set())
            of_class.update({Depth(depth)} if depth else ())
    parts = []
    for one, depths in seen.items():
        deepest = max(depths, key=lambda depth: depth.rank, default=None)
        parts.append("; ".join(filter(None, (one.value, one.leaves_open(deepest)))))
    return ". ".join(parts)


# What an inventory or a flag may declare; the rest is known without that.
DECLARABLE = tuple(
    one.value
    for one in CutClass
    if one not in (CutClass.LAB_DRIVE, CutClass.UNKNOWN, CutClass.PROCESS)
)

_DESCRIPTIONS = {
    CutClass.AC: "cut of the AC supply",
    CutClass.DC_RAIL: "cut of the DC rail",
    CutClass.BMC_OFF: "power-off by the BMC",
    CutClass.HYPERVISOR_KILL: "kill of the virtual machine",
    CutClass.RESET: "reset",
    CutClass.FAILOVER: "forced failover",
    CutClass.PROCESS: "kill of the server's process",
    CutClass.LAB_DRIVE: "cut",
    CutClass.UNKNOWN: "cut of an undeclared class",
}
_OPEN = {
    CutClass.BMC_OFF: "a BMC may leave the drives powered, so this says nothing about "
    "their caches",
    CutClass.HYPERVISOR_KILL: "the hypervisor kept its caches and its power, so this "
    "says nothing about them or about the drives",
    CutClass.RESET: "the drives kept their power, so this says nothing about their "
    "caches",
    CutClass.FAILOVER: "another server took over, or the same one started again, so "
    "this says nothing about a power cut, an operating system or drives",
    CutClass.PROCESS: "only the server's memory was lost, so this says nothing about "
    "the operating system or the drives",
    CutClass.UNKNOWN: "whether the drives lost their power is not known, so this says "
    "nothing about their caches (set dbcheck_power_class)",
}
