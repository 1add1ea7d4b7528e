"""How deep a cut went, from made-up canaries: each way to be wrong is planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.model.depth import (
    Completed,
    Counted,
    Depth,
    Ground,
    Remains,
    Ring,
    find_depth,
    find_last_write_us,
)
from tests.kit.depths import DONE, KEPT, PAGE_CACHE_GONE, REMAINS, XFS, remains, ring


@pytest.mark.parametrize(
    ("left", "depth", "lost"),
    [
        pytest.param(REMAINS, Depth.PROCESS, (0, 0), id="everything is there"),
        pytest.param(PAGE_CACHE_GONE, Depth.OS, (1000, 0), id="page cache gone"),
        pytest.param(
            replace(REMAINS, buffered=((1, 4999),)), Depth.OS, (1, 0), id="one record"
        ),
        pytest.param(
            replace(REMAINS, buffered=((1, 4500), (4502, 5000))),
            Depth.OS,
            (1, 0),
            id="a hole",
        ),
        pytest.param(
            replace(REMAINS, buffered=((4901, 5000),), first=4901),
            Depth.PROCESS,
            (0, 0),
            id="older files were deleted",
        ),
        pytest.param(
            replace(REMAINS, buffered=((7001, 8000),), first=7001),
            None,
            (0, 0),
            id="all that was reported was deleted",
        ),
        pytest.param(
            remains(KEPT, ring((400, 499))),
            Depth.DRIVE,
            (1000, 1),
            id="last block gone",
        ),
        pytest.param(
            remains(ring((399, 498), (500, 500)), KEPT),
            Depth.DRIVE,
            (1000, 1),
            id="a block before the last gone",
        ),
        pytest.param(
            remains(KEPT, ring()), Depth.DRIVE, (1000, 50), id="a ring of zeros"
        ),
        pytest.param(
            remains(KEPT, ring((401, 499), torn=(99,))),
            Depth.DRIVE,
            (1000, 1),
            id="the last block completed is torn",
        ),
        pytest.param(
            remains(KEPT, ring((402, 500), torn=(0,))),
            Depth.OS,
            (1000, 0),
            id="the block in flight is torn",
        ),
        pytest.param(
            remains(KEPT, ring((551, 649), torn=(49,))),
            Depth.OS,
            (1000, 0),
            id="much was written unreported, and the block in flight is torn",
        ),
        pytest.param(
            remains(ring((1401, 1500)), ring((1401, 1500))),
            Depth.OS,
            (1000, 0),
            id="every block overwritten since, unreported",
        ),
        pytest.param(
            replace(REMAINS, rings=(KEPT, ring((400, 499)))),
            None,
            (0, 1),
            id="the drive lost what it had completed, but not the page cache",
        ),
        pytest.param(
            replace(REMAINS, missing="the folder is gone"), None, (0, 0), id="gone"
        ),
    ],
)
def test_depth(left: Remains, depth: Depth | None, lost: tuple[int, int]) -> None:
    finding = find_depth(DONE, left, XFS)
    assert (finding.depth, finding.buffered.lost, finding.direct.lost) == (depth, *lost)
    assert all(finding.reasons)


@pytest.mark.parametrize(
    ("ground", "depth", "word"),
    [
        (Ground("ext4", "rw,relatime"), Depth.DRIVE, "volatile write cache"),
        (Ground("ext4", "rw,data=journal"), Depth.OS, "data=journal"),
        (Ground("btrfs"), Depth.OS, "btrfs does not overwrite in place"),
        (Ground("zfs"), Depth.OS, "zfs"),
        (Ground(""), Depth.OS, "unknown filesystem"),
    ],
)
def test_a_lost_block_counts_against_the_drive_only_where_it_must(
    ground: Ground, depth: Depth, word: str
) -> None:
    finding = find_depth(DONE, remains(KEPT, ring((400, 499))), ground)
    assert finding.depth is depth
    assert word in " ".join(finding.reasons)


def test_what_would_excuse_the_drive_is_said_only_where_it_lost_something() -> None:
    ground = Ground("xfs", "rw", above="the drives kept their power")
    lost = find_depth(DONE, remains(KEPT, ring((400, 499))), ground)
    kept = find_depth(DONE, remains(KEPT, KEPT), ground)
    assert (lost.depth, kept.depth) == (Depth.OS, Depth.OS)
    assert (lost.direct.lost > 0, kept.direct.lost) == (True, 0)
    assert ground.above in " ".join(lost.reasons)
    assert ground.above not in " ".join(kept.reasons)


SYNC = Ground("xfs", "rw,relatime,sync,wsync,inode64")


@pytest.mark.parametrize(
    ("ground", "attributes", "words"),
    [
        (SYNC, 0, "xfs with sync writes buffered data out at each write"),
        (Ground("ext4", "rw,nodelalloc,data=journal"), 0, "ext4 with data=journal"),
        (Ground("ext4", "rw,relatime,nodelalloc"), 0, "ext4 with nodelalloc"),
        (Ground("btrfs", "rw,flushoncommit"), 0, "btrfs with flushoncommit"),
        (Ground("ext4", "rw"), 0x80008, "ext4 with the attribute +S"),
        (Ground("ext4", "rw"), 0x84000, "ext4 with the attribute +j"),
        (Ground("ext4", "rw,dax=always"), 0, "ext4 with dax=always writes"),
        (Ground("xfs", "rw"), 0x2000000, "xfs with the attribute +x"),
        (Ground("ext3", "rw"), 0, "ext3 may write"),
        (Ground("nfs4", "rw,hard"), 0, "nfs4 may write"),
        (Ground("fuse.glusterfs", "rw"), 0, "fuse.glusterfs may write"),
        (Ground("overlay", "rw,upperdir=/a"), 0, "overlay may write"),
        (Ground(""), 0, "an unknown filesystem may write"),
    ],
)
def test_records_that_are_written_at_once_show_no_page_cache(
    ground: Ground, attributes: int, words: str
) -> None:
    found = find_depth(DONE, replace(REMAINS, attributes=attributes), ground)
    assert found.depth is None
    assert found.reasons[0].startswith(words)
    assert "kept running" not in " ".join(found.reasons)


def test_an_encrypted_file_goes_through_the_page_cache() -> None:
    left = replace(remains(KEPT, ring((400, 499))), attributes=0x80800)
    found = find_depth(DONE, left, Ground("ext4", "rw"))
    assert found.depth is Depth.OS
    assert "ext4 with the attribute E writes through the page cache" in found.reasons[0]


@pytest.mark.parametrize("kind", ["nfs4", "fuse.glusterfs", "overlay", ""])
def test_a_host_that_holds_the_files_may_have_lost_them_alone(kind: str) -> None:
    """All that its client wrote to it through the page cache is there."""
    left = replace(REMAINS, rings=(KEPT, ring((400, 499))))
    found = find_depth(DONE, left, Ground(kind))
    assert found.depth is None
    assert "another host may have lost them" in found.reasons[0]
    lost = replace(left, buffered=())
    assert find_depth(DONE, lost, Ground(kind)).depth is Depth.OS


def test_on_a_synchronous_mount_the_drive_may_still_be_seen_to_lose() -> None:
    """A lost block was flushed, and is gone: the drive lies, and lost its power."""
    left = replace(REMAINS, rings=(KEPT, ring((400, 499))))
    assert find_depth(DONE, left, SYNC).depth is Depth.DRIVE
    kept = find_depth(DONE, REMAINS, SYNC)
    assert "O_DIRECT canary was flushed too" in kept.reasons[0]


@pytest.mark.parametrize("kind", ["btrfs", "ext2", "ext4", "tmpfs", "xfs"])
@pytest.mark.parametrize("options", ["", "rw,relatime,wsync,async,data=ordered"])
def test_where_records_wait_in_the_page_cache_their_survival_tells(
    kind: str, options: str
) -> None:
    found = find_depth(
        DONE, replace(REMAINS, attributes=0x80000), Ground(kind, options)
    )
    assert found.depth is Depth.PROCESS


@pytest.mark.parametrize("left", [REMAINS, PAGE_CACHE_GONE])
def test_canaries_that_never_wrote_tell_nothing(left: Remains) -> None:
    nothing = Completed(Counted(0, 0), (Counted(0, 0), Counted(0, 0)))
    finding = find_depth(nothing, left, XFS)
    assert finding.depth is None
    assert "completed nothing" in finding.reasons[0]
    assert "never wrote" in finding.reasons[1]


def test_without_o_direct_the_page_cache_still_tells() -> None:
    done = replace(DONE, direct=(Counted(0, 0), Counted(0, 0)))
    finding = find_depth(done, remains(ring(), ring()), XFS)
    assert finding.depth is Depth.OS
    assert "the drive's part is unknown" in finding.reasons[0]


def test_without_buffered_records_a_lost_block_still_tells() -> None:
    done = replace(DONE, buffered=Counted(0, 0))
    left = remains(KEPT, ring((400, 499)))
    assert find_depth(done, left, XFS).depth is Depth.DRIVE
    assert find_depth(done, remains(KEPT, KEPT), XFS).depth is None


def test_counts_that_run_backwards_are_refused() -> None:
    with pytest.raises(ValueError, match="from 3 to 2"):
        Counted(2, 3)


@pytest.mark.parametrize(
    ("rings", "until_us"),
    [
        pytest.param((ring((402, 501)), ring((402, 500))), 7_000, id="at once"),
        pytest.param((ring(), ring()), 7_000, id="every block is lost"),
        pytest.param((ring(), ring((2405, 2502))), 7_000 + 2_000_000, id="two seconds"),
        pytest.param((ring((402, 501)),), None, id="one ring is not there"),
    ],
)
def test_blocks_beyond_the_last_report_show_how_long_the_host_went_on(
    rings: tuple[Ring, ...], until_us: int | None
) -> None:
    """A ring writes a block each millisecond at most; 500 of each were reported."""
    done = replace(DONE, as_of_us=7_000, interval_us=1_000)
    assert find_last_write_us(done, remains(*rings)) == until_us
    assert find_last_write_us(DONE, remains(*rings)) is None


def test_rings_of_other_canaries_measure_nothing() -> None:
    done = Completed(Counted(9, 2), (Counted(9, 2), Counted(9, 2)))
    left = Remains("", ((1, 9),), 1, (Ring(((1, 9),)),), 8)
    found = find_depth(done, left, Ground("xfs"))
    assert found.depth is None
    assert "1 rings were found, not 2" in found.reasons[0]


@pytest.mark.parametrize("found", [((1, 10**15),), ((5, 1),), ((-3, 1),)])
def test_numbers_that_no_ring_holds_are_refused(found: Any) -> None:
    with pytest.raises(ValueError, match="no canaries"):
        Remains("", (), 1, (Ring(found),), 8)
