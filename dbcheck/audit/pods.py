"""Rules for the pods of a database on Kubernetes, and for the claims of their volumes.

What Kubernetes shows is how a volume was asked for.  Where the node can be read, the
mount there counts, and the rules of dbcheck.audit.storage judge it.
"""

from __future__ import annotations

from dbcheck.audit.rule import Rule, SubjectKind
from dbcheck.audit.storage import BARRIER, NFS_RETRIES, SYNC
from dbcheck.model.audited import Severity
from dbcheck.model.pods import EPHEMERAL

# Facts of the volume of a pod that holds the server's data, or another place of it.
VOLUME = "volume"
OWN_LAYER = "the container's own"
EMPTY_DIR, MEMORY_DIR = "emptyDir", "emptyDir in memory"
HOST_PATH = "hostPath"
# Facts of all pods of a database.
NODES = "nodes of the pods"
ONE_EACH = "one each"
APART = "kept on different nodes"
REQUIRED, PREFERRED, NOT_APART = "required", "preferred", "no"
# Facts of a claim.
ACCESS = "access mode"
MANY, ONE_NODE, ONE_POD = "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
KEPT_BY = "kept by"
THIS_NODE, NODE_PATH = "its node", "a folder of the node (hostpath)"
FILE_SERVER, CLUSTER, SERVICE = (
    "a file server",
    "a storage cluster",
    "a storage service",
)
COPIES = "copies"
FLUSHES = "flushes of the storage"
SENT, IGNORED, DELAYED, SWITCHED_OFF = "sent", "ignored", "delayed", "switched off"
REPLICATION = "replication"
SYNCHRONOUS, ASYNCHRONOUS = "synchronous", "asynchronous"
RECLAIM = "reclaim policy"
MOUNT_READ = "its mount was read on the node"

_KUBERNETES = "Kubernetes 1.34 documentation"
_EVICTED = f"{_KUBERNETES}, Taints and Tolerations, Taint based Evictions"
_MOUNT_JUDGED = ((MOUNT_READ, frozenset({"yes"})),)

POD_RULES = (
    Rule(
        id="pod-container-layer",
        fact=VOLUME,
        unsafe=frozenset({OWN_LAYER}),
        why="No volume of the pod holds the data: they are in the container's writable"
        " layer, or in a folder that its runtime made for it. A node that starts again"
        " starts a new container, which has none of them.",
        fix="mount a PersistentVolumeClaim at the data directory",
        source=f"{_KUBERNETES}, Volumes, Background; containerd,"
        " internal/cri/server/container_create.go, volumeMounts",
        severity=Severity.ERROR,
        subject=SubjectKind.POD,
        absent_is_safe=True,
        no_receipt="it takes Kubernetes",
    ),
    Rule(
        id="pod-empty-dir",
        fact=VOLUME,
        unsafe=frozenset({EMPTY_DIR.lower()}),
        why="Kubernetes deletes an emptyDir with its pod, and deletes the pods of a"
        " node that stays away for five minutes: a longer power cut loses every"
        " commit.",
        fix="use a PersistentVolumeClaim",
        source=f"{_KUBERNETES}, Volumes, emptyDir; {_EVICTED}",
        severity=Severity.ERROR,
        subject=SubjectKind.POD,
        absent_is_safe=True,
        no_receipt="it takes Kubernetes",
    ),
    Rule(
        id="pod-memory-volume",
        fact=VOLUME,
        unsafe=frozenset({MEMORY_DIR.lower()}),
        why="This volume is kept in the memory of the node: a power cut takes all of"
        " it.",
        fix="use a PersistentVolumeClaim",
        source=f"{_KUBERNETES}, Volumes, emptyDir, medium",
        severity=Severity.ERROR,
        subject=SubjectKind.POD,
        absent_is_safe=True,
        no_receipt="it takes Kubernetes",
    ),
    Rule(
        id="pod-ephemeral-volume",
        fact=VOLUME,
        unsafe=frozenset({EPHEMERAL}),
        why="Kubernetes deletes an ephemeral volume with its pod, and deletes the pods"
        " of a node that stays away for five minutes: a longer power cut loses every"
        " commit.",
        fix="use a PersistentVolumeClaim of its own (volumeClaimTemplates of a"
        " StatefulSet)",
        source=f"{_KUBERNETES}, Ephemeral Volumes; {_EVICTED}",
        severity=Severity.ERROR,
        subject=SubjectKind.POD,
        absent_is_safe=True,
        no_receipt="it takes Kubernetes",
    ),
    Rule(
        id="pod-host-path",
        fact=VOLUME,
        unsafe=frozenset({HOST_PATH.lower()}),
        why="The data are in a folder of the node: a pod that is started on another"
        " node finds another folder there, empty or with older data.",
        fix="use a local PersistentVolume, which keeps its pod on its node",
        source=f"{_KUBERNETES}, Volumes, hostPath and local",
        severity=Severity.WARNING,
        subject=SubjectKind.POD,
        absent_is_safe=True,
    ),
    Rule(
        id="pod-shared-node",
        fact=NODES,
        safe=frozenset({ONE_EACH}),
        why="These pods share a node, and so its power: one cut takes them at once, and"
        " what one of them was to keep for the other is lost with it.",
        fix="require podAntiAffinity over kubernetes.io/hostname, and move one of them",
        source=f"{_KUBERNETES}, Assigning Pods to Nodes, Inter-pod affinity and"
        " anti-affinity",
        severity=Severity.WARNING,
        subject=SubjectKind.POD,
        absent_is_safe=True,
    ),
    Rule(
        id="pod-not-apart",
        fact=APART,
        safe=frozenset({REQUIRED}),
        why="The pods are on different nodes now, and nothing keeps them there: after a"
        " cut the scheduler may put two of them on one node.",
        fix="require podAntiAffinity, or a topology spread with DoNotSchedule, over"
        " kubernetes.io/hostname",
        source=f"{_KUBERNETES}, Assigning Pods to Nodes, Inter-pod affinity and"
        " anti-affinity; Pod Topology Spread Constraints, whenUnsatisfiable",
        severity=Severity.NOTE,
        subject=SubjectKind.POD,
        only=((NODES, frozenset({ONE_EACH})),),
        absent_is_safe=True,
    ),
)

CLAIM_RULES = (
    Rule(
        id="claim-many-writers",
        fact=ACCESS,
        unsafe=frozenset({MANY.lower()}),
        why="Pods of any node may mount this volume at once: two servers that write the"
        " same files damage them, as when a pod is started anew while its node only"
        " seems to be gone.",
        fix="use ReadWriteOncePod, or ReadWriteOnce",
        source=f"{_KUBERNETES}, Persistent Volumes, Access Modes; Force Delete"
        " StatefulSet Pods",
        severity=Severity.WARNING,
        subject=SubjectKind.CLAIM,
    ),
    Rule(
        id="claim-many-pods",
        fact=ACCESS,
        unsafe=frozenset({ONE_NODE.lower()}),
        why="Several pods of one node may mount this volume at once, and PostgreSQL's"
        " lock file does not guard it against a server in another container.",
        fix="use ReadWriteOncePod if the CSI driver has it; else see that no second pod"
        " names the claim",
        source=f"{_KUBERNETES}, Persistent Volumes, Access Modes; PostgreSQL 18 source,"
        " miscinit.c, CreateLockFile (a process of the same id is taken for itself)",
        severity=Severity.NOTE,
        subject=SubjectKind.CLAIM,
    ),
    Rule(
        id="claim-file-server",
        fact=KEPT_BY,
        unsafe=frozenset({FILE_SERVER}),
        why="The data are on a file server: a cut of the node leaves that server's"
        " power on, so only a cut of the file server tests what it acknowledges.",
        fix="cut the file server's power as well; on NFS check that it exports with"
        " sync, not async",
        source="exports(5), async; nfs(5); the documentation of the CSI driver",
        severity=Severity.WARNING,
        subject=SubjectKind.CLAIM,
        unless=_MOUNT_JUDGED,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-node-path",
        fact=KEPT_BY,
        unsafe=frozenset({NODE_PATH}),
        why="The volume is a folder of the node, and nothing is known to keep the pod"
        " there: on another node it finds another folder, empty or with older data.",
        fix="use a local volume, which names its node",
        source=f"{_KUBERNETES}, Persistent Volumes, Types (hostPath is for tests on one"
        " node); Volumes, local",
        severity=Severity.WARNING,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-one-node",
        fact=KEPT_BY,
        unsafe=frozenset({THIS_NODE}),
        why="The volume is on the drives of one node, and the pod cannot start"
        " elsewhere with it: if that node does not come back, only a replica or a"
        " backup has the commits.",
        fix="nothing, if replicas on other nodes confirm each commit",
        source=f"{_KUBERNETES}, Volumes, local; the documentation of the provisioner",
        severity=Severity.NOTE,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-other-machines",
        fact=KEPT_BY,
        unsafe=frozenset({CLUSTER, SERVICE}),
        why="Other machines keep the volume, or copies of it: a cut of the pod's node"
        " leaves their power on, so a PASS says nothing about what their drives keep.",
        fix="cut all nodes that hold copies of the volume at once; ask a provider what"
        " an acknowledged write survives",
        source="the documentation of the CSI driver; docs/power.md",
        severity=Severity.NOTE,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-one-copy",
        fact=COPIES,
        unsafe=frozenset({"0", "1"}),
        why="The storage cluster keeps one copy of the volume, on a node that need not"
        " be the pod's: if that node or its drive does not come back, the data are"
        " gone.",
        fix="have it keep two copies or more, unless replicas of the database do so",
        source="Longhorn 1.9 documentation, Storage Class Parameters, numberOfReplicas;"
        " LINSTOR CSI, pkg/volume/parameter.go, placementCount (1 unless set);"
        " OpenEBS Mayastor documentation, Storage Class Parameters, repl",
        severity=Severity.NOTE,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-flushes-ignored",
        fact=FLUSHES,
        unsafe=frozenset({IGNORED}),
        why="Longhorn (data engine v1) answers a flush at once: its replicas write with"
        " O_DIRECT and do not sync, so a cut of their nodes can lose what their drives'"
        " caches hold, and blocks that their filesystem had not recorded.",
        fix="use drives with power-loss protection and a replica on a node with other"
        " power, or storage that passes flushes on",
        source="Longhorn, issues 8662 and 4504 (open); rancher/tgt, usr/bs_longhorn.c,"
        " SYNCHRONIZE_CACHE; longhorn-engine, pkg/dataconn/types.go of August 2026 (no"
        " message for a flush)",
        severity=Severity.WARNING,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-flushes-delayed",
        fact=FLUSHES,
        unsafe=frozenset({DELAYED}),
        why="With the IO profile db_remote, which auto chooses for two copies or more,"
        " Portworx acknowledges a sync once the memory of all replicas has it: a cut of"
        " all of them at once loses the commits of the last moment.",
        fix='set io_profile: "none" or "journal" in the storage class',
        source="Portworx documentation, IO profiles: auto, db_remote",
        severity=Severity.WARNING,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-flushes-off",
        fact=FLUSHES,
        unsafe=frozenset({SWITCHED_OFF}),
        why="With disk-flushes off DRBD sends the drives below it no flush, so what a"
        " volatile cache holds is lost although it was committed.",
        fix="take DrbdOptions/Disk/disk-flushes: no out of the storage class, and set"
        " it to yes for the resource",
        source="drbd.conf(5), disk-flushes; LINSTOR CSI, pkg/volume/parameter.go",
        severity=Severity.ERROR,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
        no_receipt="it takes DRBD; drive-not-flushed shows the same below a filesystem",
    ),
    Rule(
        id="claim-asynchronous",
        fact=REPLICATION,
        unsafe=frozenset({ASYNCHRONOUS}),
        why="With protocol A DRBD acknowledges a write that only this node has: a pod"
        " that is started on another node after a cut finds a copy without the last"
        " commits.",
        fix="set DrbdOptions/Net/protocol to C",
        source="drbd.conf(5), protocol; LINSTOR CSI, pkg/volume/parameter.go",
        severity=Severity.WARNING,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
    Rule(
        id="claim-barrier",
        fact=BARRIER,
        safe=frozenset({"on"}),
        why="Without barriers the filesystem sends the drive no flush, so what a"
        " volatile cache holds is lost although it was committed.",
        fix="take the option out of mountOptions of the volume and its storage class",
        source=f"{_KUBERNETES}, Persistent Volumes, Mount Options; ext4(5), barrier",
        severity=Severity.ERROR,
        subject=SubjectKind.CLAIM,
        unless=_MOUNT_JUDGED,
        absent_is_safe=True,
        no_receipt="fs-barrier shows it, on the mount itself",
    ),
    Rule(
        id="claim-sync",
        fact=SYNC,
        safe=frozenset({"on"}),
        why="With this option a sync returns before what it wrote is stable, so commits"
        " are lost with the memory of the node, or of the file server (nostrictsync).",
        fix="take the option out of mountOptions of the volume and its storage class",
        source=f"{_KUBERNETES}, Persistent Volumes, Mount Options; as fs-sync",
        severity=Severity.ERROR,
        subject=SubjectKind.CLAIM,
        unless=_MOUNT_JUDGED,
        absent_is_safe=True,
        no_receipt="the lab's filesystems have no such option",
    ),
    Rule(
        id="claim-nfs-soft",
        fact=NFS_RETRIES,
        unsafe=frozenset({"soft", "softerr"}),
        why="With a soft mount a write fails after a timeout, which the server of the"
        " database may learn of only at the next sync, or not at all.",
        fix="put hard in the place of soft in mountOptions of the volume and its"
        " storage class",
        source=f"{_KUBERNETES}, Persistent Volumes, Mount Options; nfs(5), soft / hard",
        severity=Severity.ERROR,
        subject=SubjectKind.CLAIM,
        unless=_MOUNT_JUDGED,
        absent_is_safe=True,
        no_receipt="it takes an NFS server",
    ),
    Rule(
        id="claim-reclaim-delete",
        fact=RECLAIM,
        unsafe=frozenset({"delete"}),
        why="Whoever deletes the claim deletes the data with it.",
        fix="kubectl patch pv VOLUME -p"
        ' \'{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}\'',
        source=f"{_KUBERNETES}, Persistent Volumes, Reclaiming",
        severity=Severity.NOTE,
        subject=SubjectKind.CLAIM,
        absent_is_safe=True,
    ),
)
