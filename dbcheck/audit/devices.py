"""Rules for the block devices, drives and RAID controllers below a filesystem."""

from __future__ import annotations

from dbcheck.audit.rule import Fix, Rule, SubjectKind
from dbcheck.model.audited import Severity

# Facts of a layer.
PASSES_FLUSHES = "passes flushes on"
CACHE_MODE = "cache mode"
TARGET = "device-mapper target"
MISSING_DRIVES = "missing drives"
WRITE_HOLE = "write hole"
JOURNAL_MODE = "journal mode"
WRITE_BEHIND = "write-behind"
IN_MEMORY = "kept in memory"
INTEGRITY_MODE = "integrity mode"
LOOP = "loop device"
# Facts of a drive.
WRITE_CACHE = "write cache"
FLUSHES = "flushes"
PROVIDER = "provided by"
THIS_HOST = "this host"
HEALTH = "health"
CACHE_BACKUP = "backup of the cache"
CAPACITOR = "power-loss capacitor"
ATOMIC = "atomic write unit"
GUARDED = "server guards against torn pages"
# Facts of a controller.
CONTROLLER_CACHE = "write-back cache"
DISK_CACHE = "cache of its drives"
BATTERY = "battery"

_BLOCK_DOC = "Linux, Documentation/ABI/stable/sysfs-block, queue/write_cache"
_DM = "Linux, Documentation/admin-guide/device-mapper"
_MD = "Linux, Documentation/admin-guide/md.rst"
_STORCLI = "Broadcom, StorCLI Reference Manual, Virtual Drive Commands (wrcache)"
TEST_TARGETS = frozenset(
    {"delay", "flakey", "error", "dust", "zero", "log-writes", "snapshot"}
)
_SMALL = frozenset({"smaller than a page"})

# no_receipt: why no lab can show what the rule claims, see Rule.

LAYER_RULES = (
    Rule(
        id="layer-drops-flushes",
        fact=PASSES_FLUSHES,
        safe=frozenset({"yes"}),
        why="This device is set to 'write through', so the kernel drops every flush"
        " here, although what lies below has a write cache and needs them: a power cut"
        " loses commits.",
        fix=Fix(
            "echo 'write back' > /sys/block/$DEVICE/queue/write_cache, with a udev rule"
            " so that it lasts"
        ),
        source=f"{_BLOCK_DOC}; block/blk-core.c, submit_bio_noacct",
        severity=Severity.ERROR,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
        no_receipt="it takes device-mapper; drive-not-flushed shows the same below it",
    ),
    Rule(
        id="layer-cache-write-back",
        fact=CACHE_MODE,
        unsafe=frozenset({"writeback"}),
        why="Writes are acknowledged once they are on the cache's device: commits"
        " depend on it as on the drive, and it must be in the same server, keep its"
        " content without power, and be cut by the test.",
        fix=Fix(
            "use a cache device with power-loss protection, or set the cache to"
            " writethrough (bcache: echo writethrough > /sys/block/$DEVICE/bcache/"
            "cache_mode; LVM: lvchange --cachemode writethrough VG/LV)"
        ),
        source="Linux, Documentation/admin-guide/bcache.rst, cache_mode;"
        f" {_DM}/cache.rst and writecache.rst",
        severity=Severity.WARNING,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
    Rule(
        id="layer-made-for-tests",
        fact=TARGET,
        unsafe=TEST_TARGETS,
        why="This device-mapper target is made for tests, or keeps changes in a"
        " snapshot that ends when it is full: it is not storage for a server.",
        fix="move the data to a device without it",
        source=f"{_DM}: dm-flakey.rst, delay.rst, dm-dust.rst, zero.rst,"
        " log-writes.rst, snapshot.rst",
        severity=Severity.WARNING,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
    Rule(
        id="layer-array-degraded",
        fact=MISSING_DRIVES,
        safe=frozenset({"0"}),
        why="The array lacks drives: one more failure, or with parity a power cut in"
        " the middle of a write, damages data.",
        fix=Fix(
            "replace the drive (mdadm --manage /dev/$DEVICE --add NEW) and wait for the"
            " rebuild before a test"
        ),
        source=f"{_MD}, degraded",
        severity=Severity.WARNING,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
    Rule(
        id="layer-write-hole",
        fact=WRITE_HOLE,
        unsafe=frozenset({"open"}),
        why="A power cut in the middle of a write leaves data and parity that disagree;"
        " if a drive fails before they are repaired, blocks that were not written to"
        " are damaged as well.",
        fix=Fix(
            "mdadm --grow /dev/$DEVICE --consistency-policy=ppl (RAID 5), or a journal"
            " device"
        ),
        source="md(4), RAID WRITE HOLE; Linux,"
        " Documentation/driver-api/md/raid5-ppl.rst and raid5-cache.rst",
        severity=Severity.NOTE,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
    Rule(
        id="layer-journal-write-back",
        fact=JOURNAL_MODE,
        unsafe=frozenset({"write-back"}),
        why="Writes are acknowledged once they are in the array's journal: commits"
        " depend on that one device.",
        fix=Fix(
            "echo write-through > /sys/block/$DEVICE/md/journal_mode, or mirror the"
            " journal"
        ),
        source="Linux, Documentation/driver-api/md/raid5-cache.rst, write-back mode",
        severity=Severity.WARNING,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
    Rule(
        id="layer-write-behind",
        fact=WRITE_BEHIND,
        safe=frozenset({"off"}),
        why="Writes to some drives of the mirror are acknowledged before those drives"
        " have them: if the others fail in the power cut, commits are lost.",
        fix=Fix(
            "mdadm --grow /dev/$DEVICE --bitmap=none, then --bitmap=internal without"
            " --write-behind"
        ),
        source="md(4), WRITE-BEHIND",
        severity=Severity.WARNING,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
    Rule(
        id="layer-in-memory",
        fact=IN_MEMORY,
        safe=frozenset({"no"}),
        why="This block device is kept in memory: a power cut takes all of it.",
        fix="move the data to a drive",
        source="Linux, Documentation/admin-guide/blockdev/zram.rst and ramdisk.rst",
        severity=Severity.ERROR,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
        no_receipt="a lab keeps its data on its drive",
    ),
    Rule(
        id="layer-integrity-direct",
        fact=INTEGRITY_MODE,
        unsafe=frozenset({"d"}),
        why="dm-integrity without a journal writes data and checksums one after the"
        " other: a power cut between the two turns blocks into read errors.",
        fix="format it with a journal or a bitmap (integritysetup format,"
        " --integrity-bitmap-mode)",
        source=f"{_DM}/dm-integrity.rst, mode D",
        severity=Severity.WARNING,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
    Rule(
        id="layer-loop",
        fact=LOOP,
        unsafe=frozenset({"yes"}),
        why="A file on another filesystem plays the drive: commits depend on that"
        " filesystem and its drives too.",
        fix=Fix("audit where the file lies as well: $BACKING"),
        source="losetup(8)",
        severity=Severity.NOTE,
        subject=SubjectKind.LAYER,
        absent_is_safe=True,
    ),
)

DRIVE_RULES = (
    Rule(
        id="drive-not-flushed",
        fact=FLUSHES,
        safe=frozenset({"sent", "not needed"}),
        why="The kernel takes this drive for one without a volatile cache and sends it"
        " no flush, yet the drive reports that its write cache is on: a power cut loses"
        " commits.",
        fix=Fix(
            "echo 'write back' > /sys/block/$DEVICE/queue/write_cache, with a udev rule"
            " so that it lasts; or switch the cache off ($CACHE_OFF)"
        ),
        source=f"{_BLOCK_DOC}: it changes what the kernel assumes, not the drive",
        severity=Severity.ERROR,
        subject=SubjectKind.DRIVE,
    ),
    Rule(
        id="drive-volatile-cache",
        fact=WRITE_CACHE,
        safe=frozenset({"disabled", "none"}),
        why="The drive has a write cache: commits survive a power cut only if every"
        " layer sends flushes and the drive does what it answers, which only a cut"
        " shows.",
        fix=Fix("to do without: $CACHE_OFF"),
        source="hdparm(8), -W; sdparm(8), WCE; NVM Express Base Specification, Volatile"
        " Write Cache (Feature 06h); Linux, Documentation/block/writeback_cache_control"
        ".rst",
        severity=Severity.NOTE,
        subject=SubjectKind.DRIVE,
        absent_is_safe=True,
    ),
    Rule(
        id="drive-foreign",
        fact=PROVIDER,
        safe=frozenset({THIS_HOST}),
        why="This is not a drive of this host: what provides it has caches and power of"
        " its own, which a cut of this host does not touch.",
        fix="test where the drives are, and cut the power there too",
        source="QEMU documentation, disk cache modes: with cache=unsafe a flush is"
        " ignored, which the guest cannot see",
        severity=Severity.NOTE,
        subject=SubjectKind.DRIVE,
        absent_is_safe=True,
    ),
    Rule(
        id="drive-failing",
        fact=HEALTH,
        unsafe=frozenset({"failed"}),
        why="The drive itself reports that it is failing.",
        fix="replace it before any test",
        source="smartctl(8), -H",
        severity=Severity.ERROR,
        subject=SubjectKind.DRIVE,
        absent_is_safe=True,
        no_receipt="it takes a failing drive",
    ),
    Rule(
        id="drive-cache-backup-failed",
        fact=CACHE_BACKUP,
        unsafe=frozenset({"failed"}),
        why="The drive reports that what keeps its volatile memory alive without power"
        " has failed: it may lose what it has acknowledged.",
        fix="replace it before any test",
        source="NVM Express Base Specification, SMART / Health Information, Critical"
        " Warning bit 4",
        severity=Severity.ERROR,
        subject=SubjectKind.DRIVE,
        absent_is_safe=True,
        no_receipt="it takes such a drive",
    ),
    Rule(
        id="drive-capacitor-failed",
        fact=CAPACITOR,
        unsafe=frozenset({"failed"}),
        why="The drive's test of its power-loss capacitor fails: it may lose what it"
        " has acknowledged.",
        fix="replace it before any test",
        source="smartmontools drivedb.h, attribute 175 Power_Loss_Cap_Test",
        severity=Severity.ERROR,
        subject=SubjectKind.DRIVE,
        absent_is_safe=True,
        no_receipt="it takes such a drive",
    ),
    Rule(
        id="drive-atomic-write",
        fact=ATOMIC,
        unsafe=_SMALL,
        why="The server does not guard against torn pages, and the drive does not"
        " promise to write a page as a whole when its power fails.",
        fix="switch full_page_writes or innodb_doublewrite on",
        source="NVM Express NVM Command Set Specification, AWUPF and NAWUPF",
        severity=Severity.WARNING,
        subject=SubjectKind.DRIVE,
        only=((GUARDED, frozenset({"no"})),),
        absent_is_safe=True,
    ),
)

CONTROLLER_RULES = (
    Rule(
        id="raid-cache-unprotected",
        fact=CONTROLLER_CACHE,
        unsafe=frozenset({"unprotected"}),
        why="The controller acknowledges writes from its cache, and has no working"
        " battery or capacitor: a power cut loses them.",
        fix="storcli /cX/vY set wrcache=wb (falls back to write through without a"
        " battery), or ssacli ctrl slot=X modify nobatterywritecache=disable; then"
        " replace the battery",
        source=f"{_STORCLI}; HPE Smart Storage Administrator CLI user guide, No-Battery"
        " Write Cache",
        severity=Severity.ERROR,
        subject=SubjectKind.CONTROLLER,
        no_receipt="it takes a RAID controller",
    ),
    Rule(
        id="raid-cache-forced",
        fact=CONTROLLER_CACHE,
        unsafe=frozenset({"forced"}),
        why="The controller keeps its write-back cache on also while its battery fails"
        " or is tested (learn cycle): a power cut then loses what it has acknowledged.",
        fix="storcli /cX/vY set wrcache=wb, or ssacli ctrl slot=X modify"
        " nobatterywritecache=disable",
        source=f"{_STORCLI}: AWB; HPE Smart Storage Administrator CLI user guide,"
        " No-Battery Write Cache",
        severity=Severity.WARNING,
        subject=SubjectKind.CONTROLLER,
        absent_is_safe=True,
    ),
    Rule(
        id="raid-drive-cache",
        fact=DISK_CACHE,
        unsafe=frozenset({"enabled"}),
        why="The drives behind the controller cache writes themselves; the controller's"
        " battery does not protect that cache, and few controllers flush it.",
        fix="storcli /cX/vY set pdcache=off, or ssacli ctrl slot=X modify"
        " drivewritecache=disable usage=configured",
        source="Broadcom, StorCLI Reference Manual, pdcache; HPE Smart Storage"
        " Administrator CLI user guide, Drive Write Cache",
        severity=Severity.WARNING,
        subject=SubjectKind.CONTROLLER,
        absent_is_safe=True,
    ),
    Rule(
        id="raid-battery-learning",
        fact=BATTERY,
        unsafe=frozenset({"learning", "charging"}),
        why="The controller's battery is being tested or charged: until it is done the"
        " cache is off or unprotected, so this is not its usual state.",
        fix="wait until it is charged before a test",
        source="Broadcom, StorCLI Reference Manual, BBU and CacheVault commands",
        severity=Severity.NOTE,
        subject=SubjectKind.CONTROLLER,
        absent_is_safe=True,
    ),
)
