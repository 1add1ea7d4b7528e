"""Requires that a witness in a pod loses nothing with the fault that hits the database.

Its log must outlive a cut of any node that has a pod of the database, and a fault of
the storage that the cut is to find.  So it may lie on another node's disk, or on
storage of another kind, and never on what goes with its own pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from dbcheck.audit.pods import THIS_NODE
from dbcheck.audit.provisioners import find_keeper
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.pods import GONE_WITH_POD, PersistentVolume, Pod, PodVolume

# Kinds of a PersistentVolume whose files are on the disks of one node, and of no other.
_OF_NODE = ("local", "hostPath")
# The provisioner of a class whose volumes are made by hand, of any storage
# (https://kubernetes.io/docs/concepts/storage/storage-classes/#local, 1.34).
_BY_HAND = "kubernetes.io/no-provisioner"
_OTHER_NODE = (
    "Keep it off the database's nodes by a required podAntiAffinity, as"
    " container/kubernetes/witness.yaml does, or use a witness outside of the cluster."
)
_OTHER_STORAGE = (
    "Use storage of another kind, or a local volume of another node; or use a witness"
    " outside of the cluster."
)


def require_other_storage(
    database: Sequence[Pod], witness: Pod, folder: str = ""
) -> str:
    """Return the evidence that the witness's log would outlive the database's fault.

    database: all pods of the database, also those that are not to be cut.  witness: the
    pod that has the log; for a witness file:FOLDER that is dbcheck's own.  folder: the
    log's folder as the pod's container sees it; "" if that is not known, and then each
    volume of the pod may be it.

    Raise UsageError if the witness is on a node of the database, if its folder goes
    with its pod, or if it lies on the database's storage: the same volume, storage
    class, or CSI driver.  Volumes of two nodes' own disks are apart, whatever their
    class.  What could not be read is named in the evidence, and compared with nothing.
    """
    _require_other_node(database, witness)
    holding = _find_volumes(witness, folder)
    _require_kept(witness, folder, holding)
    unknown: dict[str, None] = {}  # in the order in which they are found
    of_database = [(pod, volume) for pod in database for volume in pod.volumes]
    for mine, (pod, theirs) in product(holding, of_database):
        if shared := _find_shared(mine, theirs):
            raise UsageError(
                f"the witness's log in {witness.named} is on the storage of the"
                f" database ({pod.named}): {shared}",
                id=ErrorId.WITNESS_ON_DATABASE_STORAGE,
                hint=_OTHER_STORAGE,
            )
        if not (_is_apart_by_node(mine) or _is_apart_by_node(theirs)):
            unknown |= dict.fromkeys(_describe_unknown(witness, mine))
            unknown |= dict.fromkeys(_describe_unknown(pod, theirs))
    where = f"{witness.named} is on the node {witness.node}, without the database"
    if unknown:
        return f"{where}; the storage was not compared: {'; '.join(unknown)}"
    return f"{where}, and its log is on other storage"


def _require_other_node(database: Sequence[Pod], witness: Pod) -> None:
    for pod in database:
        if pod.node == witness.node:
            raise UsageError(
                f"the witness's log is in {witness.named}, on the node {pod.node} of"
                f" {pod.named}: it would lose power together with the server",
                id=ErrorId.WITNESS_ON_TARGET,
                hint=_OTHER_NODE,
            )


def _find_volumes(witness: Pod, folder: str) -> list[PodVolume]:
    """Return the volumes that may have the log: one if *folder* is known, or none."""
    if not folder:
        return list(witness.volumes)
    found = witness.find_volume(folder)
    return [found] if found else []


def _require_kept(witness: Pod, folder: str, holding: Sequence[PodVolume]) -> None:
    """Raise UsageError if the log is removed with the pod that has it."""
    kept = [volume for volume in holding if volume.kind not in GONE_WITH_POD]
    if kept:
        return
    on = f"the volume {holding[0].name} ({holding[0].kind})" if holding else "no volume"
    raise UsageError(
        f"the witness's {folder or 'folder'} in {witness.named} is on {on}: it is"
        " removed with the pod",
        id=ErrorId.WITNESS_FOLDER_GOES_WITH_POD,
        hint="Mount a PersistentVolumeClaim there, of other storage than the"
        " database's.",
    )


def _find_shared(mine: PodVolume, theirs: PodVolume) -> str:
    """Return in words what a volume of the witness shares with the database's, or "".

    Both are of pods on different nodes.
    """
    if mine.claim_uid and mine.claim_uid == theirs.claim_uid:
        return f"the claim {mine.claim}"
    if mine.volume and theirs.volume and mine.volume.uid == theirs.volume.uid:
        return f"the volume {mine.volume.name}"
    if _is_apart_by_node(mine) or _is_apart_by_node(theirs):
        return ""  # on the disks of one node, where the other's pod is not
    if mine.volume and theirs.volume and _is_same_handle(mine.volume, theirs.volume):
        return f"{mine.volume.name} and {theirs.volume.name} are one volume"
    classes = mine.storage_class, theirs.storage_class
    if classes[0] and classes[1] and classes[0].name == classes[1].name:
        return f"the storage class {classes[0].name}"
    systems = list(_name_systems(theirs))
    both = [name for name in _name_systems(mine) if name in systems]
    return f"both are of {both[0]}" if both else ""


def _is_same_handle(one: PersistentVolume, other: PersistentVolume) -> bool:
    """Return True if two volumes of the API name the same storage."""
    return one.handle != "" and (one.kind, one.driver, one.handle) == (
        other.kind,
        other.driver,
        other.handle,
    )


def _name_systems(volume: PodVolume) -> Iterator[str]:
    """Yield what names the system that a volume comes from, best first."""
    if volume.volume:
        yield volume.volume.driver or volume.volume.kind
    if volume.storage_class and volume.storage_class.provisioner != _BY_HAND:
        yield volume.storage_class.provisioner
    if not volume.claim:
        yield volume.kind  # as nfs: the pod itself names the server


def _is_apart_by_node(volume: PodVolume) -> bool:
    """Return True if a volume is known to be on the disks of its pod's node."""
    found = volume.volume
    if found is None:
        return volume.kind in ("emptyDir", "hostPath")
    keeper = find_keeper(found, volume.storage_class, shared=False)
    return found.kind in _OF_NODE or keeper == THIS_NODE


def _describe_unknown(pod: Pod, volume: PodVolume) -> Iterator[str]:
    """Yield why a volume's storage is not known; nothing if it is."""
    if not any(_name_systems(volume)):
        why = "; ".join(f"{what}: {text}" for what, text in volume.unread.items())
        named = f"{volume.claim or volume.name} of {pod.named}"
        yield f"that of {named} is not known{why and f' ({why})'}"
