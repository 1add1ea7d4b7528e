"""What canaries left, from records of a few numbers."""

from __future__ import annotations

from dataclasses import replace

from dbcheck.model.depth import Completed, Counted, Ground, Remains, Ring

BLOCKS = 100
XFS = Ground("xfs", "rw,noatime")
# 1..500 completed in both rings; the last second began after 450.
DONE = Completed(Counted(5000, 4000), (Counted(500, 450), Counted(500, 450)))


def ring(*found: tuple[int, int], torn: tuple[int, ...] = ()) -> Ring:
    return Ring(found, frozenset(torn))


KEPT = ring((402, 501))
REMAINS = Remains("", ((1, 5001),), 1, (KEPT, KEPT), BLOCKS)
PAGE_CACHE_GONE = replace(REMAINS, buffered=())


def remains(*rings: Ring) -> Remains:
    return replace(PAGE_CACHE_GONE, rings=rings)
