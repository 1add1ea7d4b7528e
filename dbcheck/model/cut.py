"""A cut of the power: what a switch reports of it, its kind, and what ended with it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbcheck.model.depth import Depth
from dbcheck.model.verdict import format_count


class PowerState(enum.Enum):
    """The state that the switch reports; UNKNOWN if it cannot read one."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class SwitchKind(enum.Enum):
    """The kinds of power switches; the value names one in inventories and runs."""

    MANUAL = "manual"
    EXEC = "exec"
    FENCE = "fence"
    SYSRQ = "sysrq"
    LAB = "lab"


class PowerScope(enum.Enum):
    """Scope of a switch: what it cuts; the value is its name in inventories."""

    HOST = "host"  # the host, with all that is in it
    DRIVE = "drive"  # its drives alone: the host keeps running


class LabCut(enum.Enum):
    """Target of a lab's cut; the value is its name in specs and runs."""

    DRIVE = "drive"  # the power of its virtual drive, and all above it
    PROCESS = "process"  # the server's process alone


@dataclass(frozen=True, slots=True)
class Cut:
    """One cut of the power, in microseconds of the client's monotonic clock.

    asked_us: when the switch was asked to cut; None if a person cuts, at any time.
    exact_us: when the power was gone, if the switch knows.
    report:   what the switch reports (counters, output).  Its "off_s": for how many
              seconds the switch is to keep the power off, if it does.  Its "off_seen":
              the switch reads from its device that the power is off.
    """

    asked_us: int | None
    exact_us: int | None
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def off_seen(self) -> bool:
        """True if the switch reads from its device that the power is off."""
        return self.report.get("off_seen") is True

    @property
    def by_hand(self) -> bool:
        """True if a human made the cut, so that its time is not known."""
        return self.asked_us is None and self.exact_us is None


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """Record of a fault beside the load, made by the user's own programs.

    Times in us of the monotonic clock of the client that did it; that which ends it may
    be another one than that which began it.
    node:     the name that the programs got.
    asked_us: just before the first program was started.
    began_us: when it had ended with 0, None if it did not.  failure: why not.
    ended_us: when the second one had ended with 0, None as long as it did not.
    end_failure: why it did not when it was last tried.
    """

    node: str
    asked_us: int
    began_us: int | None = None
    failure: str = ""
    ended_us: int | None = None
    end_failure: str = ""

    @property
    def is_over(self) -> bool:
        """True once it was ended: whether it had begun may not be known."""
        return self.ended_us is not None


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
        """Return a description of the cut, to come after "this"."""
        return _DESCRIPTIONS[self]

    @property
    def reaches_drives(self) -> bool:
        """True if a cut reaches the drives' power, as assumed and not measured."""
        return self in (CutClass.AC, CutClass.DC_RAIL, CutClass.LAB_DRIVE)

    @property
    def keeps_power(self) -> bool:
        """True if nothing is ever without power, not even for a moment."""
        return self in (
            CutClass.HYPERVISOR_KILL,
            CutClass.RESET,
            CutClass.FAILOVER,
            CutClass.PROCESS,
        )

    def took(self, depth: Depth | None) -> str:
        """Return a clause: the caches that were lost beside the server's memory.

        "" if nothing is known beyond the description.
        depth: the depth that was measured, None if none was.  A drive's cache counts
        as lost only if its loss was measured.
        """
        if self is CutClass.PROCESS:
            return "nothing else was tested"
        if self is CutClass.FAILOVER:
            return "no power cut was tested"
        if depth is Depth.DRIVE and not self.keeps_power:
            return "the drive's cache was lost, too"
        if depth is Depth.PROCESS:
            return "the operating system kept its page cache"
        drives_kept = "the drives kept their power" if self.keeps_power else ""
        if depth is not None:
            drives_kept = drives_kept or "the drive's cache was not seen to be lost"
            return f"the page cache was lost, but {drives_kept}"
        if self is CutClass.LAB_DRIVE:
            return ""
        return drives_kept or "how deep it went was not measured"

    def leaves_open(self, depth: Depth | None) -> str:
        """Return the layers that a cut does not test; "" if it tests even the drives.

        depth: the depth that was measured, None if none was.
        """
        deepest = depth is Depth.DRIVE and not self.keeps_power
        if deepest or self is CutClass.LAB_DRIVE:
            return ""
        if self in (CutClass.AC, CutClass.DC_RAIL):
            return "" if depth else "its depth was not measured"
        return _LEFT_OPEN[self]


def describe_cuts(cuts: Iterable[tuple[str, str]]) -> str:
    """Return a description of several cuts, with what each class leaves open.

    With several classes it counts the cuts of each, since a bound holds for all cuts
    together.

    cuts: for each cycle the CutClass.value, "" where it is not known, and the
    Depth.value that was seen, "" where none was measured.
    """
    open_by_class: dict[CutClass, list[str]] = {}
    for name, depth in cuts:
        if name:
            cut_class = CutClass(name)
            open_texts = open_by_class.setdefault(cut_class, [])
            open_texts.append(cut_class.leaves_open(Depth(depth) if depth else None))
    parts = []
    for cut_class, open_texts in open_by_class.items():
        number = format_count(len(open_texts), "cut")
        name = cut_class.value
        if cut_class is CutClass.LAB_DRIVE:
            name = "the power of a lab's virtual drive"
        parts.append(f"{name} ({number})" if len(open_by_class) > 1 else name)
        for text in filter(None, dict.fromkeys(open_texts)):
            some = (
                ""
                if open_texts.count(text) == len(open_texts)
                else "in some of these cuts, "
            )
            parts[-1] += f"; {some}{text}"
    return ". ".join(parts)


# Classes that an inventory or a flag may declare; dbcheck itself assigns the others.
DECLARABLE = tuple(
    cut_class.value
    for cut_class in CutClass
    if cut_class not in (CutClass.LAB_DRIVE, CutClass.UNKNOWN, CutClass.PROCESS)
)

_DESCRIPTIONS = {
    CutClass.AC: "AC power cut",
    CutClass.DC_RAIL: "power cut of the DC rail",
    CutClass.BMC_OFF: "power-off by the BMC",
    CutClass.HYPERVISOR_KILL: "kill of the virtual machine",
    CutClass.RESET: "reset of the host",
    CutClass.FAILOVER: "forced failover",
    CutClass.PROCESS: "kill of the server's process",
    CutClass.LAB_DRIVE: "power cut of the virtual drive",
    CutClass.UNKNOWN: "cut of undeclared power",
}
_LEFT_OPEN = {
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


@dataclass(frozen=True, slots=True)
class CutDrive:
    """One drive that lost its power.

    names:       the block devices that had its serial before the cut, by the kernel's
                 names; several if it has several paths.
    gone:        the host had no such block device just before the power came back.
    names_after: the names of the block devices that had the serial once the power was
                 back; () if none had.
    """

    names: tuple[str, ...]
    gone: bool
    names_after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remounted:
    """One filesystem on the drives that were cut.

    taken_off: the host no longer held the filesystem in memory, mounted or not, before
               the power came back.
    lazily:    the filesystem was detached while something still used it.
    checked:   what the check of the filesystem printed, "" if no check ran.
    mounted_on: kernel's name of the device that the filesystem was mounted from once
               the drive was back; "" if it was not mounted.
    """

    point: str
    filesystem: str
    serial: str
    taken_off: bool
    lazily: bool
    checked: str
    mounted_on: str


@dataclass(frozen=True, slots=True)
class DriveCut:
    """Observations of the host's agent, from the cut until the server's new start.

    drives:  serial of a drive -> what was seen of it.
    gone_us: when the host was first seen without any of these drives, on the client's
             clock in microseconds; None if not seen before the server was ended.
    killed:  the server's processes that ran when the server was to be killed.
    left:    processes that still ran when the server's filesystem was taken off.
    failure: why a filesystem did not come back, "" if each did.
    not_started: how the command that starts the server failed, "" if it did not fail.
    """

    drives: Mapping[str, CutDrive]
    mounts: tuple[Remounted, ...]
    gone_us: int | None
    killed: tuple[int, ...]
    left: tuple[int, ...]
    failure: str = ""
    not_started: str = ""


class Gone(enum.Enum):
    """Way in which a load saw its server end; the value is what is stored."""

    NEVER = ""  # it kept answering
    BROKEN = "broken"  # every connection broke
    SILENT = "silent"  # no reply came any more
    STALLED = "stalled"  # it was silent, then answered again
    UNSEEN = "unseen"  # the client stopped watching


@dataclass(frozen=True, slots=True)
class Replaced:
    """Sessions of the load that broke and that others replaced.

    sessions: number of these sessions.  first_us, last_us: when the first and the last
    of them broke, on the client's monotonic clock; 0 if none broke.
    """

    sessions: int = 0
    first_us: int = 0
    last_us: int = 0

    def joined(self, other: Replaced) -> Replaced:
        """Return the sum of this record and *other*."""
        if not self.sessions or not other.sessions:
            return self if self.sessions else other
        return Replaced(
            self.sessions + other.sessions,
            min(self.first_us, other.first_us),
            max(self.last_us, other.last_us),
        )

    def moved(self, by_us: int) -> Replaced:
        """Return this record by another clock, which shows *by_us* more."""
        if not self.sessions:
            return self
        return Replaced(self.sessions, self.first_us + by_us, self.last_us + by_us)


Part = tuple[int, int, int]  # number of a write; first byte, bytes of it that survived


@dataclass(frozen=True, slots=True)
class CrashState:
    """One crash state.

    moment: the number of the moment at which it is judged.
    drives: what each drive holds: how many writes are whole, and parts of later writes.
            Nothing else makes one state differ from another.
    """

    moment: int
    drives: tuple[tuple[int, tuple[Part, ...]], ...]


@dataclass(frozen=True, slots=True)
class OtherUsers:
    """Other users who would be hit if this server's power were cut.

    databases:   names of databases, schemas or tables that are not dbcheck's.
    connections: number of other clients' connections at this moment.
    unreadable:  "databases" or "connections" -> why it could not be read.
    """

    databases: tuple[str, ...]
    connections: int
    unreadable: Mapping[str, str] = field(default_factory=dict)
