"""Rules for the filesystems below a server; their options as settings of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.audit.rule import Fix, Harm, Rule, SubjectKind
from dbcheck.model.audited import Severity
from dbcheck.model.depth import Depth

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
        "checkpoint=disable",
        "journal_flush_disabled",
    ),
}
# XFS has ignored nobarrier since Linux 4.10 and refused it since 4.19 (Linux,
# Documentation/admin-guide/xfs.rst, Deprecated Mount Options, and commit 4cf4573d).
_XFS_IGNORES_SINCE = (4, 10)

# Facts that other rules are conditional on, see audit/servers.py.
WHOLE_PAGES = "storage writes whole pages"
SHARED_DRIVE = "redo log and data share their drives"
VOLATILE_DOUBLEWRITE = "volatile cache below the doublewrite file"
SYNCFS_REPORTS = "syncfs reports errors"
YES, NO = frozenset({"yes"}), frozenset({"no"})

KIND = "kind of filesystem"
LOCAL, MEMORY, NETWORK, OVERLAY, FUSE, UNJOURNALED, OTHER = (
    "local",
    "memory",
    "network",
    "overlay",
    "fuse",
    "no journal",
    "unknown",
)
_KINDS = {
    LOCAL: "ext3 ext4 xfs btrfs zfs f2fs jfs bcachefs reiserfs nilfs2",
    MEMORY: "tmpfs ramfs rootfs devtmpfs",
    NETWORK: "nfs nfs4 cifs smb3 9p virtiofs ceph lustre gpfs afs ocfs2 gfs2"
    " fuse.glusterfs fuse.sshfs fuse.cephfs fuse.s3fs fuse.rclone",
    OVERLAY: "overlay aufs",
    UNJOURNALED: "ext2 vfat msdos exfat minix ufs",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
JOURNAL_MODE = "journal mode"
# The folder in which kubelet keeps such volumes, of each pod (kubelet, volume/emptydir,
# pluginName, and the name escaped for a path).
POD_VOLUME, EMPTY_DIR = "volume of the pod", "emptydir"
EMPTY_DIR_FOLDER = "/kubernetes.io~empty-dir/"
DATA_COW = "copy on write"
NFS_RETRIES = "retries"
ZFS_SYNC, ZFS_FLUSH = "sync", "zfs_nocacheflush"
WRITEBACK = frozenset({"writeback"})

RULES = (
    Rule(
        id="fs-barrier",
        fact=BARRIER,
        safe=frozenset({"on"}),
        why="Without barriers the filesystem sends the drive no flush, so what a"
        " volatile cache holds is lost although it was committed.",
        fix=Fix(
            "mount $MOUNT without nobarrier, barrier=0 or fsync_mode=nobarrier, also in"
            " /etc/fstab"
        ),
        source="ext4(5), barrier=0 / barrier=1; xfs(5) before Linux 4.19, nobarrier;"
        " Linux, Documentation/filesystems/f2fs.rst, fsync_mode",
        severity=Severity.ERROR,
        subject=SubjectKind.FILESYSTEM,
        harm=Harm(Depth.DRIVE, everything=True),
        absent_is_safe=True,
    ),
    Rule(
        id="fs-sync",
        fact=SYNC,
        safe=frozenset({"on"}),
        why="With this option a sync returns before what it wrote is stable, so commits"
        " are lost with the memory of the host, or of the file server (nostrictsync).",
        fix=Fix("mount $MOUNT without this option, also in /etc/fstab"),
        source="Linux, Documentation/filesystems/overlayfs.rst, Volatile mount;"
        " Documentation/filesystems/f2fs.rst, checkpoint; mount.cifs(8), nostrictsync;"
        " fs/bcachefs/opts.h, journal_flush_disabled;"
        " Documentation/admin-guide/jfs.rst, nointegrity (no journal is written)",
        severity=Severity.ERROR,
        subject=SubjectKind.FILESYSTEM,
        harm=Harm(Depth.OS, everything=True),
        # bcachefs loses only what came since its last journal write.
        harms={"journal_flush_disabled": Harm(Depth.OS)},
        absent_is_safe=True,
        no_receipt="the lab's filesystems have no such option",
    ),
    Rule(
        id="fs-in-memory",
        fact=KIND,
        unsafe=frozenset({MEMORY}),
        why="This filesystem is kept in memory: a power cut takes all of it.",
        fix="move the directory to a filesystem on a drive",
        source="Linux, Documentation/filesystems/tmpfs.rst",
        severity=Severity.ERROR,
        subject=SubjectKind.FILESYSTEM,
        no_receipt="a lab keeps its data on its drive",
    ),
    Rule(
        id="fs-network",
        fact=KIND,
        unsafe=frozenset({NETWORK}),
        why="The data are on a file server: a cut of this host leaves that server's"
        " power on, so only a cut of the file server tests what it acknowledges.",
        fix="cut the file server's power as well; on NFS check that it exports with"
        " sync, not async",
        source="exports(5), async; nfs(5)",
        severity=Severity.WARNING,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
    ),
    Rule(
        id="fs-nfs-soft",
        fact=NFS_RETRIES,
        unsafe=frozenset({"soft", "softerr"}),
        why="With a soft mount a write fails after a timeout, which the server of the"
        " database may learn of only at the next sync, or not at all.",
        fix=Fix("mount $MOUNT with hard"),
        source="nfs(5), soft / hard: a soft timeout can cause silent data corruption",
        severity=Severity.ERROR,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
        no_receipt="it takes an NFS server",
    ),
    Rule(
        id="fs-overlay",
        fact=KIND,
        unsafe=frozenset({OVERLAY}),
        why="The data are in the writable layer of a container: they are removed"
        " with it, and what holds them below is not shown here.",
        fix="keep the data on a volume of the container engine or a bind mount",
        source="Linux, Documentation/filesystems/overlayfs.rst; Docker documentation,"
        " Storage: the writable layer is not persistent",
        severity=Severity.WARNING,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
    ),
    Rule(
        id="fs-empty-dir",
        fact=POD_VOLUME,
        unsafe=frozenset({EMPTY_DIR}),
        why="The data are in an emptyDir of a pod: Kubernetes deletes them when it"
        " moves or deletes the pod.",
        fix="use a PersistentVolumeClaim",
        source="Kubernetes documentation, Volumes, emptyDir",
        severity=Severity.WARNING,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
    ),
    Rule(
        id="fs-fuse",
        fact=KIND,
        unsafe=frozenset({FUSE}),
        why="A program serves this filesystem: whether a sync makes data durable is up"
        " to that program.",
        fix="keep the data on a filesystem of the kernel",
        source="Linux, Documentation/filesystems/fuse/fuse.rst",
        severity=Severity.WARNING,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
    ),
    Rule(
        id="fs-no-journal",
        fact=KIND,
        unsafe=frozenset({UNJOURNALED, OTHER}),
        why="This filesystem has no journal, or none that is known: after a power cut"
        " it may need repair, which can remove files.",
        fix="keep the data on ext4, XFS, Btrfs or ZFS",
        source="fsck(8); Linux, Documentation/filesystems/ext2.rst",
        severity=Severity.WARNING,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
    ),
    Rule(
        id="fs-data-writeback",
        fact=JOURNAL_MODE,
        unsafe=WRITEBACK,
        why="With data=writeback a file that grew before a power cut may hold old"
        " content of the drive where nothing was flushed; what was flushed is kept.",
        fix=Fix("mount $MOUNT with data=ordered"),
        source="ext4(5), data=writeback",
        severity=Severity.NOTE,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
    ),
    Rule(
        id="fs-nodatacow",
        fact=DATA_COW,
        unsafe=frozenset({"off"}),
        why="With nodatacow Btrfs overwrites in place and keeps no checksums of data:"
        " a cut can tear a page, and nothing notices one that rotted.",
        fix="keep full_page_writes or innodb_doublewrite on",
        source="btrfs(5), nodatacow",
        severity=Severity.NOTE,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
    ),
    Rule(
        id="fs-zfs-sync",
        fact=ZFS_SYNC,
        unsafe=frozenset({"disabled"}),
        why="With sync=disabled ZFS acknowledges a sync at once, so a crash of the host"
        " loses the commits of the last seconds.",
        fix=Fix("zfs set sync=standard $SOURCE"),
        source="zfsprops(7), sync",
        severity=Severity.ERROR,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
        no_receipt="it takes ZFS",
    ),
    Rule(
        id="fs-zfs-nocacheflush",
        fact=ZFS_FLUSH,
        unsafe=frozenset({"1"}),
        why="With zfs_nocacheflush ZFS sends its drives no flush, so what a volatile"
        " cache holds is lost although it was committed.",
        fix="echo 0 > /sys/module/zfs/parameters/zfs_nocacheflush, and remove it from"
        " /etc/modprobe.d",
        source="OpenZFS, zfs(4), zfs_nocacheflush",
        severity=Severity.ERROR,
        subject=SubjectKind.FILESYSTEM,
        absent_is_safe=True,
        no_receipt="it takes ZFS",
    ),
)


def kind_of(filesystem: str) -> str:
    """Return the kind of a filesystem, by its name in /proc/mounts."""
    if filesystem in _KIND_OF:
        return _KIND_OF[filesystem]
    return FUSE if filesystem.startswith("fuse") else OTHER


def parse_mount_settings(
    mount_options: Sequence[str], ignored: frozenset[str] = frozenset()
) -> Mapping[str, str]:
    """Return the settings that mount options imply; {} if no option is known.

    mount_options: as in /proc/mounts, separated by commas.
    ignored: options that this kernel ignores.
    """
    given = {
        option for options in mount_options for option in options.split(",") if option
    }
    if not given:
        return {}
    given -= ignored
    return {
        fact: next((option for option in unsafe if option in given), "on")
        for fact, unsafe in _UNSAFE.items()
    }


def list_ignored_options(filesystem: str, kernel: tuple[int, ...]) -> frozenset[str]:
    """Return the options that a kernel shows and does not obey; (): it is unknown."""
    if filesystem == "xfs" and kernel >= _XFS_IGNORES_SINCE:
        return frozenset({"nobarrier"})
    return frozenset()
