"""The pods of a database and the claims of their volumes as subjects of the audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dbcheck.audit import pods as rules
from dbcheck.audit import storage
from dbcheck.audit.provisioners import (
    count_copies,
    find_keeper,
    is_described,
    judge_flushes,
    judge_replication,
    list_mount_options,
    name_driver,
)
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.subject import Fact, Subject
from dbcheck.model.host import TargetFacts
from dbcheck.model.places import DATA, Place
from dbcheck.model.pods import CLAIM, EPHEMERAL, GONE_WITH_POD, Pod, PodVolume

_API = "the API of Kubernetes"
_CLAIMS, _VOLUMES, _CLASSES, _PODS = (
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "pods",
)
_ROLES = {_CLAIMS: "Role", _PODS: "Role"}  # of the namespace; others are the cluster's
_SIGNS_OF_DENIAL = ("forbidden", "403", "unauthorized", "401")
# Kinds of volumes that outlive their pod (Kubernetes 1.34 documentation, Volumes).
_KEPT = frozenset(
    {
        *(CLAIM, "nfs", "iscsi", "fc", "rbd", "cephfs", "glusterfs"),
        *("awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "flexVolume"),
        *("gcePersistentDisk", "portworxVolume", "vsphereVolume"),
    }
)
_IN_MEMORY = ("Memory", "HugePages")
_WIDEST_FIRST = (rules.MANY, rules.ONE_NODE, rules.ONE_POD)


def make_unread_pods(why: str, remedy: str = "") -> list[Subject]:
    """Return the stand-in for pods that could not be read; why: the error."""
    fact = _make_unread_fact(_PODS, why)
    fact = replace(fact, remedy=remedy or fact.remedy)
    return [Subject(SubjectKind.POD, "the pods of this server", {rules.VOLUME: fact})]


def make_pod_subjects(
    pods: Sequence[Pod],
    places: Sequence[Place],
    host: TargetFacts | None = None,
    unseen: str = "",
) -> list[Subject]:
    """Return the subjects of a database: volumes of its pods, claims, and the nodes.

    places: of the server that was asked; the others of its cluster are taken to have
    theirs at the same paths.
    host:   of the server that was asked, if it was read; what is mounted there counts
            for that pod.
    unseen: why the data directory is not among *places*.
    """
    if not pods:
        return make_unread_pods("no pod matches the selector")
    seen = find_pod_on_host(pods, host)
    subjects: list[Subject] = []
    claims: dict[str, Subject] = {}
    for pod in pods:
        shown = host if pod is seen else None
        subjects += _make_place_subjects(pod, places, shown, unseen)
        for volume in _select_claims(pod, places):
            claim = _make_claim_subject(pod, volume, read=shown is not None)
            claims.setdefault(claim.name, claim)
    living = [pod for pod in pods if not pod.ending]
    if len(living) > 1:
        subjects.append(_make_subject_of_all(living))
    return [*subjects, *_merge_claims(claims.values())]


def find_pod_on_host(pods: Sequence[Pod], host: TargetFacts | None) -> Pod | None:
    """Return the pod whose server has the data on *host*, None if that is unsure."""
    if host is None or host.container is None:
        return None
    cgroup = host.container.cgroup
    return next((pod for pod in pods if pod.has_process(cgroup)), None)


def drop_repeated_facts(
    below: Sequence[Subject], of_pods: Sequence[Subject]
) -> list[Subject]:
    """Return *below* without the fact of an emptyDir that *of_pods* shows already."""
    if not any(
        subject.values.get(rules.VOLUME) in (rules.EMPTY_DIR, rules.MEMORY_DIR)
        for subject in of_pods
    ):
        return list(below)
    return [
        replace(
            subject,
            facts={
                name: fact
                for name, fact in subject.facts.items()
                if name != storage.POD_VOLUME
            },
        )
        for subject in below
    ]


# --------------------------------------------------------------- places in a pod


def _make_place_subjects(
    pod: Pod, places: Sequence[Place], host: TargetFacts | None, unseen: str
) -> Iterator[Subject]:
    """Yield a subject for each volume that has places of the server."""
    inside: dict[str, list[Place]] = {}
    for place in places:
        if place.path:
            volume = pod.find_volume(place.path)
            inside.setdefault(volume.name if volume else "", []).append(place)
    hidden = [place.name for place in places if not place.path]
    if DATA not in (place.name for place in places):
        hidden.append(DATA)
    if hidden:
        why = unseen or "the server does not show its path"
        yield _make_place_subject(pod, hidden, Fact(None, "the server", why))
    by_name = {volume.name: volume for volume in pod.volumes}
    for name, held in inside.items():
        if name in by_name:
            fact = _make_volume_fact(by_name[name])
        else:
            fact = _make_uncovered_fact(pod, held, host)
        yield _make_place_subject(pod, [place.name for place in held], fact)


def _make_place_subject(pod: Pod, names: Iterable[str], volume: Fact) -> Subject:
    facts = {rules.VOLUME: volume}
    if pod.node:
        facts["node"] = Fact(pod.node, _name_source(_PODS))
    return Subject(SubjectKind.POD, f"{', '.join(names)} of {pod.named}", facts)


def _make_volume_fact(volume: PodVolume) -> Fact:
    how = _name_source(_PODS)
    if volume.kind == "emptyDir" and volume.medium.startswith(_IN_MEMORY):
        return Fact(rules.MEMORY_DIR, how)
    if volume.kind in GONE_WITH_POD:
        is_empty = volume.kind == "emptyDir"
        return Fact(rules.EMPTY_DIR if is_empty else EPHEMERAL, how)
    if volume.kind in (*_KEPT, "hostPath"):
        return Fact(volume.kind, how)
    why = f"what becomes of a volume of the kind {volume.kind} is not known"
    return Fact(None, how, why)


def _make_uncovered_fact(
    pod: Pod, places: Sequence[Place], host: TargetFacts | None
) -> Fact:
    """Make the fact of places that are in no volume, as far as their paths show.

    An image may have a link at such a path, which leads into a volume.
    """
    how = _name_source(_PODS)
    kept = [each for each in pod.volumes if each.kind not in GONE_WITH_POD]
    if not kept or any(_is_in_container(pod, place, host) for place in places):
        return Fact(rules.OWN_LAYER, how)
    paths = ", ".join(path for each in kept for path in each.paths)
    why = f"no volume has {places[0].path}, but a link there may lead to {paths}"
    return Fact(None, how, why)


def _is_in_container(pod: Pod, place: Place, host: TargetFacts | None) -> bool:
    """Return True if the host shows that a place goes with its container.

    containerd keeps what an image declares as a volume in a folder of the container
    (internal/cri/server/container_create.go, volumeMounts).
    """
    for volume in host.volumes if host is not None else ():
        if place.name in volume.places:
            overlaid = storage.kind_of(volume.filesystem) == storage.OVERLAY
            path = volume.places[place.name]
            return overlaid or bool(pod.container_id and pod.container_id in path)
    return False


# --------------------------------------------------------------- all pods


def _make_subject_of_all(pods: Sequence[Pod]) -> Subject:
    """Return where the pods of a database are, beside each other."""
    how = _name_source(_PODS)
    on_node: dict[str, list[str]] = {}
    for pod in pods:
        on_node.setdefault(pod.node, []).append(f"{pod.name} ({pod.role.value})")
    shared = [
        f"{', '.join(names)} on {node}"
        for node, names in on_node.items()
        if len(names) > 1
    ]
    apart = rules.NOT_APART
    if all(pod.apart for pod in pods):
        apart = rules.REQUIRED
    elif all(pod.apart or pod.preferred_apart for pod in pods):
        apart = rules.PREFERRED
    facts = {
        rules.NODES: Fact("; ".join(shared) or rules.ONE_EACH, how),
        rules.APART: Fact(apart, how),
    }
    names = ", ".join(pod.name for pod in pods)
    return Subject(SubjectKind.POD, f"pods {pods[0].namespace}/{names}", facts)


# --------------------------------------------------------------- claims


def _select_claims(pod: Pod, places: Sequence[Place]) -> list[PodVolume]:
    """Return the volumes of claims that have the server's files, or may have some.

    A link in the data directory may lead into a volume, as that of a log does.  One
    for many writers without a place on it is for backups.
    """
    known = [place for place in places if place.path]
    holding = [pod.find_volume(place.path) for place in known]
    sure = any(place.name == DATA for place in known) and any(holding)
    return [
        volume
        for volume in pod.volumes
        if volume.claim
        and (volume in holding or not sure or rules.MANY not in volume.access_modes)
    ]


def _make_claim_subject(pod: Pod, volume: PodVolume, *, read: bool) -> Subject:
    """Return a claim; read: what is mounted of it was read on the node."""
    driver = name_driver(volume.volume, volume.storage_class)
    facts = {
        rules.ACCESS: _make_access_fact(volume),
        rules.KEPT_BY: _make_keeper_fact(volume, driver),
        rules.RECLAIM: _make_reclaim_fact(volume),
        **_make_mount_facts(volume),
    }
    if volume.storage_class is not None:
        name = volume.storage_class.name
        facts["storage class"] = Fact(name, _name_source(_CLAIMS))
    if driver:
        facts["driver"] = Fact(driver, _name_source(_VOLUMES))
    if is_described(driver):
        facts.update(_make_class_facts(volume, driver))
    if read:
        facts[rules.MOUNT_READ] = Fact("yes", "the pod's container on the host")
    name = f"claim {pod.namespace}/{volume.claim}"
    return Subject(SubjectKind.CLAIM, name, facts)


def _make_class_facts(volume: PodVolume, driver: str) -> Mapping[str, Fact]:
    """Make the facts that the parameters of a storage class show."""
    if volume.storage_class is None:
        why = volume.unread.get("storage class", "the claim names no storage class")
        unread = _make_unread_fact(_CLASSES, why)
        return {rules.COPIES: unread, rules.FLUSHES: unread}
    parameters = volume.storage_class.parameters
    values = {
        rules.COPIES: count_copies(driver, parameters),
        rules.FLUSHES: judge_flushes(driver, parameters),
        rules.REPLICATION: judge_replication(driver, parameters),
    }
    how, why = _name_source(_CLASSES), "a default of the storage cluster decides it"
    undecided = Fact(None, how, why, "name repl and io_profile in the storage class")
    return {
        name: undecided if value is None else Fact(value, how)
        for name, value in values.items()
        if value != ""
    }


def _make_access_fact(volume: PodVolume) -> Fact:
    """Make the fact of the access mode, of several the one that lets in most."""
    for mode in _WIDEST_FIRST:
        if mode in volume.access_modes:
            return Fact(mode, _name_source(_CLAIMS))
    return _make_unread_fact(_CLAIMS, volume.unread.get("claim", "it has none"))


def _make_keeper_fact(volume: PodVolume, driver: str) -> Fact:
    by_hand = volume.volume is not None and volume.volume.kind == "hostPath"
    if by_hand and "storage class" in volume.unread:
        return _make_unread_fact(_CLASSES, volume.unread["storage class"])
    shared = rules.MANY in volume.access_modes
    keeper = find_keeper(volume.volume, volume.storage_class, shared=shared)
    if keeper is not None:
        return Fact(keeper, _name_source(_VOLUMES))
    if driver:
        why = f"what {driver} keeps a volume on is not known"
        return Fact(None, _name_source(_VOLUMES), why)
    return _make_fact_of_unread_volume(volume)


def _make_reclaim_fact(volume: PodVolume) -> Fact:
    if volume.volume is not None and volume.volume.reclaim_policy:
        return Fact(volume.volume.reclaim_policy, _name_source(_VOLUMES))
    return _make_fact_of_unread_volume(volume)


def _make_fact_of_unread_volume(volume: PodVolume) -> Fact:
    if "claim" in volume.unread:
        return _make_unread_fact(_CLAIMS, volume.unread["claim"])
    why = volume.unread.get("volume", "it is not shown")
    return _make_unread_fact(_VOLUMES, why)


def _make_mount_facts(volume: PodVolume) -> Mapping[str, Fact]:
    """Make the facts of mount options, unread if neither volume nor class was read."""
    if volume.volume is None and volume.storage_class is None:
        return {storage.BARRIER: _make_fact_of_unread_volume(volume)}
    how = _name_source(_VOLUMES)
    options = list_mount_options(volume.volume, volume.storage_class)
    values = dict(storage.parse_mount_settings(options))
    given = {option for each in options for option in each.split(",")}
    if soft := sorted(given & {"soft", "softerr"}):
        values[storage.NFS_RETRIES] = soft[0]
    return {name: Fact(value, how) for name, value in values.items()}


def _merge_claims(claims: Iterable[Subject]) -> Iterator[Subject]:
    """Yield the claims; those with equal facts become one subject."""
    merged: list[Subject] = []
    for claim in claims:
        for number, other in enumerate(merged):
            if other.facts == claim.facts:
                names = other.name.removeprefix("claims ").removeprefix("claim ")
                added = claim.name.partition("/")[2]
                merged[number] = replace(other, name=f"claims {names}, {added}")
                break
        else:
            merged.append(claim)
    yield from merged


def _name_source(resource: str) -> str:
    return f"{_API}: {resource}"


def _make_unread_fact(resource: str, why: str) -> Fact:
    """Return a fact that could not be read, and the right that its account lacks."""
    remedy = ""
    if any(sign in why.lower() for sign in _SIGNS_OF_DENIAL):
        role = _ROLES.get(resource, "ClusterRole")
        verb = "list" if resource == _PODS else "get"
        remedy = f"let dbcheck's account {verb} {resource} (by a {role})"
    return Fact(None, _name_source(resource), why, remedy)
