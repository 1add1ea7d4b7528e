"""Rules for what lies below a server, as settings of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.audit.rule import Harm, Rule
from dbcheck.core.depth import Depth

BARRIER = "mount option barrier"
_NO_BARRIER = frozenset({"nobarrier", "barrier=0", "barrier=none"})

RULES = (
    Rule(
        id="fs-barrier",
        fact=BARRIER,
        safe=frozenset({"on"}),
        why="Without barriers the filesystem sends the drive no flush, so what a"
        " volatile cache holds is lost although it was committed; mount it without"
        " nobarrier or barrier=0.",
        source="ext4(5), barrier=0 / barrier=1; xfs(5) before Linux 4.19, nobarrier",
        harm=Harm(Depth.DRIVE, everything=True),
        absent_is_safe=True,
    ),
)


def settings_of(mount_options: Sequence[str]) -> Mapping[str, str]:
    """Return what the mount options of each filesystem say; {} if nothing is known.

    They are as in /proc/mounts, separated by commas.
    """
    given = {each for options in mount_options for each in options.split(",") if each}
    if not given:
        return {}
    found = sorted(_NO_BARRIER & given)
    return {BARRIER: found[0] if found else "on"}
