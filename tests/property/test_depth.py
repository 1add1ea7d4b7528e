"""Whatever is left of the canaries, each record is kept or lost, and never both."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.model.depth import Completed, Counted, Depth, Ring, find_depth
from tests.kit.depths import DONE, REMAINS, XFS, remains, ring


def left_of(written: int, kept: int, blocks: int) -> Ring:
    """Return a ring after *written* writes, of which the drive kept *kept*."""
    numbers = range(max(1, kept - blocks + 1), kept + 1)
    return ring((numbers.start, kept)) if kept else ring()


@given(
    written=st.integers(1, 3000),
    unreported=st.integers(0, 3000),
    unflushed=st.integers(0, 300),
    recent=st.integers(0, 3000),
    blocks=st.sampled_from([64, 100, 1024]),
)
def test_the_drive_is_accused_exactly_if_a_reported_write_is_gone(
    written: int, unreported: int, unflushed: int, recent: int, blocks: int
) -> None:
    reported = max(0, written - unreported)
    kept = max(0, written - unflushed)
    done = Completed(
        Counted(5000, 4000), (Counted(reported, max(0, reported - recent)),)
    )
    left = remains(left_of(written, kept, blocks))
    found = find_depth(done, replace(left, ring_blocks=blocks), XFS)
    gone = max(0, min(reported - kept, recent, blocks // 2, reported))
    assert found.direct.lost == gone
    assert found.depth is (Depth.DRIVE if gone else Depth.OS)


@given(
    last=st.integers(0, 200),
    recent=st.integers(0, 200),
    kept=st.sets(st.integers(1, 220)),
)
def test_every_recent_record_is_kept_or_lost(
    last: int, recent: int, kept: set[int]
) -> None:
    before = max(0, last - recent)
    done = replace(DONE, buffered=Counted(last, before))
    left = replace(REMAINS, buffered=tuple((n, n) for n in sorted(kept)))
    found = find_depth(done, left, XFS)
    assert found.buffered.lost == len(set(range(before + 1, last + 1)) - kept)
    assert (found.depth is Depth.PROCESS) == (last > before and not found.buffered.lost)
