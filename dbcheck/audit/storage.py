"""Rules for what lies below a server, as settings of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.audit.rule import Harm, Rule
from dbcheck.core.depth import Depth

BARRIER = "mount option barrier"
SYNC = "mount option sync"
# Options that are unsafe, as /proc/mounts shows them, those that lose most first.
_UNSAFE = {
    BARRIER: ("barrier=0", "barrier=none", "fsync_mode=nobarrier", "nobarrier"),
    SYNC: (
        "volatile",
        "fsync=volatile",  # the same since Linux 6.18
        "nointegrity",
        "nostrictsync",
        "journal_flush_disabled",
    ),
}

RULES = (
    Rule(
        id="fs-barrier",
        fact=BARRIER,
        safe=frozenset({"on"}),
        why="Without barriers the filesystem sends the drive no flush, so what a"
        " volatile cache holds is lost although it was committed; mount it without"
        " nobarrier, barrier=0 or fsync_mode=nobarrier.",
        source="ext4(5), barrier=0 / barrier=1; xfs(5) before Linux 4.19, nobarrier;"
        " Linux, Documentation/filesystems/f2fs.rst, fsync_mode",
        harm=Harm(Depth.DRIVE, everything=True),
        absent_is_safe=True,
    ),
    Rule(
        id="fs-sync",
        fact=SYNC,
        safe=frozenset({"on"}),
        why="With this option a sync returns before what it wrote is stable, so commits"
        " are lost with the memory of the host, or of the file server (nostrictsync);"
        " mount it without it.",
        source="Linux, Documentation/filesystems/overlayfs.rst, Volatile mount;"
        " mount.cifs(8), nostrictsync; fs/bcachefs/opts.h, journal_flush_disabled;"
        " Documentation/admin-guide/jfs.rst, nointegrity (no journal is written)",
        harm=Harm(Depth.OS, everything=True),
        # bcachefs loses only what came since its last journal write.
        harms={"journal_flush_disabled": Harm(Depth.OS)},
        absent_is_safe=True,
    ),
)


def settings_of(mount_options: Sequence[str]) -> Mapping[str, str]:
    """Return the settings that mount options imply; {} if no option is known.

    They are as in /proc/mounts, separated by commas.
    """
    given = {each for options in mount_options for each in options.split(",") if each}
    if not given:
        return {}
    return {
        fact: next((option for option in unsafe if option in given), "on")
        for fact, unsafe in _UNSAFE.items()
    }
