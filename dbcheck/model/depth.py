"""The depth of a cut, measured by data that were never flushed.

Two canaries write beside the server.  The buffered canary appends records through the
page cache, the O_DIRECT canary writes blocks past it to the drive, and neither is ever
flushed.  A write that was completed and is gone after the cut was in memory that lost
its power:

    buffered all there                 PROCESS: the operating system kept its cache
    buffered lost                      OS: the page cache is gone
    completed blocks lost from a drive DRIVE: its volatile write cache is gone

Only a loss proves depth.  Blocks that survive may have been flushed in time, since
every commit of the server flushes the canary's drive as well.  Records that survive
show that the page cache survived only where nothing writes them out at once: see
Ground.written_at_once().
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

RECENT_S = 1.0
RING_BLOCKS_MAX = 1 << 20  # 4 GiB
# Filesystems that overwrite allocated blocks in place: such a write needs no metadata,
# which could be lost in the page cache instead of the block in the drive.
IN_PLACE = frozenset({"ext2", "ext3", "ext4", "xfs"})
# Options with which ext4 buffers O_DIRECT writes (ext4(5), data=journal; Linux,
# Documentation/filesystems/fscrypt.rst, which knows exceptions that nothing shows).
_OPTIONS_AGAINST_DIRECT = ("data=journal", "encryption")
# On these filesystems an appended record waits in the page cache, whatever other files
# are synced: XFS, Btrfs and ext4 do not even allocate its blocks before it is written
# back.  ext3 has no delayed allocation, and writes the data of every file with its
# journal.
_DELAYING_FILESYSTEMS = frozenset({"btrfs", "ext2", "ext4", "tmpfs", "xfs"})
# Options that write a record out at once, or with the next sync of any file.  Sources:
# mount(8) for sync; ext4(5) for data=journal and nodelalloc (data=ordered writes
# allocated blocks before each commit of the journal); btrfs(5) for flushoncommit; and
# Documentation/filesystems/dax.rst for dax, which has no page cache.
_WRITTEN_AT_ONCE_BY = {
    "sync": "each write",
    "data=journal": "each commit of its journal",
    "nodelalloc": "each commit of its journal",
    "flushoncommit": "each commit of a transaction",
    "dax": "each write",
    "dax=always": "each write",
}
# Attributes of a file, inherited from its folder: FS_IOC_GETFLAGS of linux/fs.h and
# ext4(5), chattr(1) +S, +j, E and +x.
_OPTIONS_OF_ATTRIBUTES = {
    0x8: ("+S", "sync"),
    0x800: ("E", "encryption"),
    0x4000: ("+j", "data=journal"),
    0x2000000: ("+x", "dax"),
}


class Depth(enum.Enum):
    """Depth of a cut: what it destroyed; each depth includes those before it."""

    PROCESS = "PROCESS"  # the server's memory
    OS = "OS"  # and the page cache
    DRIVE = "DRIVE"  # and the drive's volatile write cache

    @property
    def rank(self) -> int:
        """Place in the order of depths, from 0 on."""
        return list(Depth).index(self)


@dataclass(frozen=True, slots=True)
class Counted:
    """Least progress of one canary: later writes may have been completed too.

    last:   the highest number known to be completed; 0 if none is.
    before: the highest number completed RECENT_S earlier.  The kernel writes the page
            cache back in time (dirty_writeback_centisecs, 5 s), so older numbers prove
            nothing.
    """

    last: int
    before: int

    def __post_init__(self) -> None:
        """Refuse numbers that run backwards."""
        if not 0 <= self.before <= self.last:
            raise ValueError(f"no canary counts from {self.before} to {self.last}")


@dataclass(frozen=True, slots=True)
class Completed:
    """Writes that the canaries had completed at the cut.

    buffered:    of the buffered canary.
    direct:      of the O_DIRECT canary, for each ring.
    as_of_us:    when the host read these numbers, on the client's monotonic clock,
                 in microseconds; None if no report came.
    interval_us: a ring writes no two blocks within less time than this; 0 if unknown.
    """

    buffered: Counted
    direct: tuple[Counted, ...]
    as_of_us: int | None = None
    interval_us: int = 0


Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """Blocks that were read of one ring.

    found: numbers of the whole blocks, as rising pairs of first and last.
    torn:  slots, from 0, that hold parts of two blocks.
    """

    found: Ranges
    torn: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Remains:
    """Contents of the canaries as they were read afterwards.

    missing:     why there is nothing to read, "" if there is.
    buffered:    numbers of the whole records, as rising pairs of first and last.
    first:       the first record that was not deleted to make room for later ones.
    ring_blocks: number n of a ring lies in its slot (n - 1) % ring_blocks.
    attributes:  of their files, as FS_IOC_GETFLAGS gives them; 0 if unknown.
    """

    missing: str
    buffered: Ranges
    first: int
    rings: tuple[Ring, ...]
    ring_blocks: int
    attributes: int = 0

    def __post_init__(self) -> None:
        """Refuse what no canaries leave, or what would take too long to check."""
        sizes = (sum(last - first + 1 for first, last in r.found) for r in self.rings)
        pairs = [*self.buffered, *(pair for ring in self.rings for pair in ring.found)]
        if not (
            1 <= self.ring_blocks <= RING_BLOCKS_MAX
            and all(1 <= first <= last for first, last in pairs)
            and all(size <= RING_BLOCKS_MAX for size in sizes)
        ):
            raise ValueError("no canaries leave such numbers")


@dataclass(frozen=True, slots=True)
class Ground:
    """Filesystem that the canaries wrote on; "" where it is not known.

    attributes: see Remains.
    above:      why a lost block was lost above the drives, "" if nothing shows that.
    """

    filesystem: str
    mount_options: str = ""
    attributes: int = 0
    above: str = ""

    @property
    def _options(self) -> dict[str, str]:
        """Return option in force -> the mount option or file attribute that sets it."""
        mounted = {option: option for option in self.mount_options.split(",")}
        of_files = {
            option: f"the attribute {name}"
            for bit, (name, option) in _OPTIONS_OF_ATTRIBUTES.items()
            if self.attributes & bit
        }
        return {**of_files, **mounted}

    @property
    def _kind(self) -> str:
        return self.filesystem or "an unknown filesystem"

    def objection(self) -> str:
        """Return the reason why a lost block is no proof against the drive, or ""."""
        if self.filesystem not in IN_PLACE:
            return f"{self._kind} does not overwrite in place"
        for option in filter(None, map(self._options.get, _OPTIONS_AGAINST_DIRECT)):
            return f"{self.filesystem} with {option} writes through the page cache"
        return self.above

    def written_at_once(self) -> str:
        """Return the reason why records may outlive the page cache here, or ""."""
        if self.filesystem not in _DELAYING_FILESYSTEMS:
            return f"{self._kind} may write buffered data out before a sync asks for it"
        for option, when in _WRITTEN_AT_ONCE_BY.items():
            if shown := self._options.get(option):
                return (
                    f"{self.filesystem} with {shown} writes buffered data out at {when}"
                )
        return ""

    @property
    def may_be_remote(self) -> bool:
        """True if the filesystem is not known to be local: another host may have it."""
        return self.filesystem not in _DELAYING_FILESYSTEMS | IN_PLACE

    @property
    def flushes_direct(self) -> bool:
        """True if the option sync makes each O_DIRECT write be flushed as well."""
        return "sync" in self._options


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one canary, all its rings together.

    wrote:   how many writes were surely completed.
    checked: how many of the last writes were checked.
    lost:    how many of the checked writes are gone.
    """

    wrote: int
    checked: int
    lost: int

    @property
    def kept_all(self) -> bool:
        """True if writes were checked, and none is gone."""
        return self.checked > 0 and not self.lost

    def __str__(self) -> str:
        if not self.wrote:
            return "never wrote"
        return f"lost {self.lost:,} of the last {self.checked:,}"


@dataclass(frozen=True, slots=True)
class DepthFinding:
    """The depth of one cut; None if the canaries do not show it.

    reasons: sentences, the decisive one first.
    """

    depth: Depth | None
    buffered: Tally
    direct: Tally
    reasons: tuple[str, ...]


def find_depth(completed: Completed, remains: Remains, ground: Ground) -> DepthFinding:
    """Find the depth of a cut from the writes that were completed and that remain."""
    missing = remains.missing
    if not missing and len(remains.rings) != len(completed.direct):
        missing = f"{len(remains.rings)} rings were found, not {len(completed.direct)}"
    if missing:
        written = sum(ring.last for ring in completed.direct)
        reason = f"the canaries cannot be read after the cut: {missing}"
        return DepthFinding(
            None,
            Tally(completed.buffered.last, 0, 0),
            Tally(written, 0, 0),
            (reason,),
        )
    buffered = _count_lost_records(completed.buffered, remains)
    direct = _count_lost_blocks(completed.direct, remains)
    ground = dataclasses.replace(ground, attributes=remains.attributes)
    depth, reason = _decide_depth(buffered, direct, ground)
    counts = f"buffered canary {buffered}; unflushed O_DIRECT canary {direct}"
    return DepthFinding(depth, buffered, direct, (reason, counts))


def find_last_write_us(completed: Completed, remains: Remains) -> int | None:
    """Return a moment at which the host surely still wrote, None if none is known.

    On the client's monotonic clock, in microseconds.  Each block beyond the last report
    took a ring's interval, except two: one block may have followed at once, since a
    late write does not delay the next, and one was perhaps not counted yet.
    """
    as_of_us = completed.as_of_us
    if as_of_us is None or len(remains.rings) != len(completed.direct):
        return None
    blocks_beyond = [
        max((last for _, last in ring.found), default=0) - counted.last
        for counted, ring in zip(completed.direct, remains.rings, strict=True)
    ]
    return as_of_us + max(0, max(blocks_beyond, default=0) - 2) * completed.interval_us


def find_first_loss_us(completed: Completed, remains: Remains) -> int | None:
    """Return a moment by which a block was completed that is gone, with all after it.

    On the client's monotonic clock, in microseconds; None if none is known.  After that
    moment a ring wrote at most one block in each interval, except two blocks, see
    find_last_write_us().
    """
    as_of_us = completed.as_of_us
    if as_of_us is None or len(remains.rings) != len(completed.direct):
        return None
    gone_blocks = [
        counted.last - max((last for _, last in ring.found), default=0)
        for counted, ring in zip(completed.direct, remains.rings, strict=True)
    ]
    most_gone = max(gone_blocks, default=0)
    if most_gone <= 0:
        return None
    return as_of_us - max(0, most_gone - 3) * completed.interval_us


def _decide_depth(
    buffered: Tally, direct: Tally, ground: Ground
) -> tuple[Depth | None, str]:
    objection, at_once = ground.objection(), ground.written_at_once()
    if direct.lost and buffered.kept_all and not at_once:
        return None, (
            "blocks that the drive had completed are gone, but the page cache is "
            "not: no cut of the host's power does that"
        )
    if direct.lost and buffered.kept_all and ground.may_be_remote:
        return None, (
            "completed blocks are gone, but no record is: another host may have lost "
            f"them, as {objection}"
        )
    if direct.lost and not objection:
        return Depth.DRIVE, (
            f"{direct.lost:,} writes that the drive had completed are gone: its "
            "volatile write cache was lost"
        )
    if direct.lost or buffered.lost:
        why = f"{objection}, so no more is shown" if direct.lost else ""
        return (
            Depth.OS,
            "the page cache was lost;"
            f" {why or _explain_unshown_drive_loss(direct, ground)}",
        )
    if buffered.kept_all and at_once:
        return None, (
            f"{at_once}, so records that survived do not show whether the page cache "
            f"did; {_explain_unshown_drive_loss(direct, ground)}"
        )
    if buffered.kept_all:
        return Depth.PROCESS, (
            "the page cache survived, so the operating system kept running or was "
            "shut down in an orderly way"
        )
    return None, "the buffered canary completed nothing that could be checked"


def _explain_unshown_drive_loss(direct: Tally, ground: Ground) -> str:
    if not direct.checked:
        return "the O_DIRECT canary did not write, so the drive's part is unknown"
    if ground.flushes_direct:
        return "the O_DIRECT canary was flushed too, so the drive's part is unknown"
    return (
        "nothing shows that the drive's own cache was lost: every completed write"
        " survived"
    )


def _count_lost_records(counted: Counted, remains: Remains) -> Tally:
    before = min(counted.last, max(counted.before, remains.first - 1))
    checked = counted.last - before
    kept = sum(
        max(0, min(last, counted.last) - max(first, before + 1) + 1)
        for first, last in remains.buffered
    )
    return Tally(counted.last, checked, checked - kept)


def _count_lost_blocks(counted: Sequence[Counted], remains: Remains) -> Tally:
    """Count the blocks whose slot holds an older number.

    A newer number in the slot has overwritten a block that had survived until then.
    """
    checked = lost = 0
    for ring_counted, ring in zip(counted, remains.rings, strict=True):
        before = max(ring_counted.before, ring_counted.last - remains.ring_blocks // 2)
        checked += ring_counted.last - before
        lost += _count_lost_in_ring(
            ring, range(before + 1, ring_counted.last + 1), remains.ring_blocks
        )
    return Tally(sum(ring_counted.last for ring_counted in counted), checked, lost)


def _count_lost_in_ring(ring: Ring, numbers: range, ring_blocks: int) -> int:
    """Count the blocks of *numbers*, half a ring at most, that are gone.

    The block that was being written when the power went may be torn without any
    fault of the drive.  Such a block comes soon after *numbers*: its slot holds one of
    *numbers* only if far more was written than was reported.
    """
    newest = {
        (number - 1) % ring_blocks: number
        for first, last in ring.found
        for number in range(first, last + 1)
    }
    stalled = max(newest.values(), default=0) >= numbers.stop + ring_blocks // 4
    lost = 0
    for number in numbers:
        slot = (number - 1) % ring_blocks
        if slot in ring.torn:
            lost += not stalled
        else:
            lost += newest.get(slot, 0) < number
    return lost


@dataclass(frozen=True, slots=True)
class ReachedVolume:
    """One filesystem; depth: Depth.value, "" if it was not measured."""

    filesystem_uuid: str
    depth: str


@dataclass(frozen=True, slots=True)
class Reached:
    """Result of dbcheck power test on an idle host.

    at: time of the test, UTC, ISO 8601.  machine_id: id of the idle host.
    lag_s: seconds from when its switch was asked until the host was last heard, None if
           not known.
    """

    at: str
    machine_id: str
    volumes: tuple[ReachedVolume, ...]
    lag_s: float | None = None


class HeldCanary(Protocol):
    """A session whose orderly end commits the canary that it planted."""

    def is_held(self) -> bool:
        """Return True if the session is still open, as far as known without a query."""

    def close(self) -> None:
        """End the session; never raises."""
