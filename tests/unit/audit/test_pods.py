"""The pods of a database, and the claims of their volumes, as the audit sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.audit import pods as rules
from dbcheck.audit.pod_volumes import (
    drop_repeated_facts,
    find_pod_on_host,
    make_pod_subjects,
    make_unread_pods,
)
from dbcheck.audit.result import AuditResult
from dbcheck.audit.rules import Located, find_located_findings, list_all_rules
from dbcheck.audit.stack import make_subjects
from dbcheck.audit.subject import Subject
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.preflight.audit import (
    audit_facts,
    audit_node_before_load,
    audit_server,
)
from dbcheck.model.audited import RuleStatus, Severity
from dbcheck.model.host import Container, Readings, TargetFacts
from dbcheck.model.places import DATA, WAL, Place
from dbcheck.model.pods import (
    CLAIM,
    PersistentVolume,
    Pod,
    PodRole,
    PodVolume,
    StorageClass,
)
from dbcheck.model.server import ServerFacts
from dbcheck.ports.site import Node, PodSource
from dbcheck.report.audit import draw_audit, summarize_findings
from dbcheck.report.console import make_console
from tests.kit.bare_engine import BareEngine
from tests.kit.host_samples import FACTS as HOST
from tests.kit.host_samples import VOLUME as MOUNTED
from tests.kit.samples import FACTS as SERVER
from tools.docs import rules as document

DATA_DIRECTORY = "/var/lib/postgresql/data/pgdata"
PLACES = (Place(DATA, DATA_DIRECTORY), Place(WAL, f"{DATA_DIRECTORY}/pg_wal"))
MOUNT = "/var/lib/postgresql/data"
CONTAINER_ID = "c0ffee" * 10 + "c0ff"
DENIED = 'persistentvolumes "pv-1" is forbidden: User "dbcheck" cannot get resource'

CLASS = StorageClass("fast", "topolvm.io", {})
PV = PersistentVolume("pv-1", "u1", "csi", "topolvm.io", "h1", "Retain")
SAFE = PodVolume(
    "pgdata",
    CLAIM,
    (MOUNT,),
    claim="pgdata-orders-1",
    claim_uid="c1",
    access_modes=(rules.ONE_POD,),
    volume=PV,
    storage_class=CLASS,
)
POD = Pod(
    namespace="prod",
    name="orders-1",
    uid="p1",
    node="node-a",
    container="postgres",
    addresses=("10.0.0.1",),
    role=PodRole.PRIMARY,
    volumes=(SAFE,),
    container_id=CONTAINER_ID,
    apart=("kubernetes.io/hostname",),
)
REPLICA = replace(
    POD,
    name="orders-2",
    uid="p2",
    node="node-b",
    role=PodRole.REPLICA,
    container_id="d0d0" * 16,
    volumes=(replace(SAFE, claim="pgdata-orders-2", claim_uid="c2"),),
)
IN_POD = replace(
    HOST, container=Container(7, f"/kubepods/podp1/cri-containerd-{CONTAINER_ID}.scope")
)


def located(
    *pods: Pod, places: Sequence[Place] = PLACES, host: TargetFacts | None = None
) -> list[Located]:
    return find_located_findings("postgresql", make_pod_subjects(pods, places, host))


def found(*pods: Pod, **given: Any) -> dict[str, str]:
    """Return each rule that is not met -> its status."""
    return {e.finding.rule.id: e.finding.status.value for e in located(*pods, **given)}


def pod_with(*volumes: PodVolume) -> Pod:
    return replace(POD, volumes=volumes)


def made_by(
    provisioner: str, parameters: Mapping[str, str] | None = None, **changed: Any
) -> Pod:
    """Return a pod whose data a CSI driver of that name keeps."""
    volume = replace(
        SAFE,
        volume=replace(PV, driver=provisioner),
        storage_class=StorageClass("fast", provisioner, parameters or {}),
        **changed,
    )
    return pod_with(volume)


def names_of(subjects: Sequence[Subject]) -> list[str]:
    return [subject.name for subject in subjects]


ON_ITS_NODE = {"claim-one-node": "unsafe"}
ELSEWHERE = {"claim-other-machines": "unsafe"}

# ------------------------------------------------------------- what holds the data


def test_a_claim_of_one_pod_on_the_drives_of_the_node_leaves_a_note() -> None:
    assert found(POD) == ON_ITS_NODE
    assert [each.severity for each in located(POD)] == [Severity.NOTE]


@pytest.mark.parametrize(
    ("kind", "medium", "rule"),
    [
        ("emptyDir", "", "pod-empty-dir"),
        ("emptyDir", "Memory", "pod-memory-volume"),
        ("emptyDir", "HugePages-2Mi", "pod-memory-volume"),
        ("ephemeral", "", "pod-ephemeral-volume"),
        ("csi", "", "pod-ephemeral-volume"),
        ("hostPath", "", "pod-host-path"),
    ],
)
def test_a_volume_that_does_not_outlive_its_pod_is_named(
    kind: str, medium: str, rule: str
) -> None:
    volume = PodVolume("pgdata", kind, (MOUNT,), medium)
    assert found(pod_with(volume)) == {rule: "unsafe"}


@pytest.mark.parametrize("kind", ["nfs", "iscsi", "rbd"])
def test_a_volume_that_a_pod_names_itself_outlives_it(kind: str) -> None:
    assert found(pod_with(PodVolume("pgdata", kind, (MOUNT,)))) == {}


def test_a_kind_of_volume_that_is_not_known_is_not_safe() -> None:
    (one,) = located(pod_with(PodVolume("pgdata", "newKind", (MOUNT,))))
    assert one.finding.status is RuleStatus.UNKNOWN
    assert "newKind" in one.decisive.why


def test_data_that_no_volume_holds_go_with_the_container() -> None:
    beside = PodVolume("scratch", "emptyDir", ("/tmp",))
    for pod in (pod_with(), pod_with(beside)):
        assert found(pod) == {"pod-container-layer": "unsafe"}


def test_a_path_outside_all_volumes_may_be_a_link_into_one() -> None:
    elsewhere = replace(SAFE, paths=("/bitnami",))
    assert found(pod_with(elsewhere)) == {
        **ON_ITS_NODE,
        "pod-container-layer": "unknown",
    }
    (*_, open_one) = located(pod_with(elsewhere))
    assert f"no volume has {DATA_DIRECTORY}" in open_one.decisive.why
    assert "/bitnami" in open_one.decisive.why


@pytest.mark.parametrize(
    ("filesystem", "path", "status"),
    [
        ("overlay", "/run/containerd/rootfs/d", "unsafe"),
        ("ext4", f"/var/lib/containerd/containers/{CONTAINER_ID}/volumes/1", "unsafe"),
        ("ext4", "/srv/volumes/7/pgdata", "unknown"),
    ],
)
def test_the_host_shows_whether_a_path_goes_with_the_container(
    filesystem: str, path: str, status: str
) -> None:
    mounted = replace(MOUNTED, filesystem=filesystem, places={DATA: path, WAL: path})
    pod = pod_with(replace(SAFE, paths=("/bitnami",)))
    seen = found(pod, host=replace(IN_POD, volumes=(mounted,)))
    assert seen["pod-container-layer"] == status


def test_the_innermost_mount_has_a_path() -> None:
    """A WAL of its own, below the data; a name that only begins alike is another."""
    inner = replace(SAFE, name="wal", paths=(f"{DATA_DIRECTORY}/pg_wal/",), claim="wal")
    beside = PodVolume("old", "emptyDir", (f"{MOUNT[:-1]}", "/var"))
    pod = pod_with(beside, inner, SAFE)
    for path, volume in {
        DATA_DIRECTORY: SAFE,
        MOUNT: SAFE,
        f"{DATA_DIRECTORY}/pg_wal": inner,
        f"{DATA_DIRECTORY}/pg_wal2": SAFE,
        "/var/lib/other": beside,
        "/etc": None,
    }.items():
        assert pod.find_volume(path) is volume
    assert names_of(make_pod_subjects([pod], PLACES)) == [
        "data of pod prod/orders-1",
        "WAL of pod prod/orders-1",
        "claims prod/wal, pgdata-orders-1",
    ]
    lost = replace(inner, kind="emptyDir", claim="")
    (worst, *_) = located(pod_with(SAFE, lost))
    assert worst.subject.name == "WAL of pod prod/orders-1"
    assert worst.finding.rule.id == "pod-empty-dir"


def test_a_data_directory_on_a_subpath_is_where_it_is_mounted() -> None:
    mounted = replace(SAFE, paths=("/var/log/postgresql", DATA_DIRECTORY))
    assert found(pod_with(mounted)) == ON_ITS_NODE


def test_a_data_directory_that_is_not_shown_is_not_safe() -> None:
    why = "the account may not see data_directory: grant pg_read_all_settings"
    subjects = make_pod_subjects([POD], (), None, why)
    assert names_of(subjects) == [
        "data of pod prod/orders-1",
        "claim prod/pgdata-orders-1",
    ]
    *_, open_one = find_located_findings("postgresql", subjects)
    assert open_one.finding.status is RuleStatus.UNKNOWN
    assert open_one.decisive.why == why
    hidden = [Place("data", ""), Place("undo", "/var/undo")]
    assert "the server does not show its path" in [
        each.decisive.why for each in located(POD, places=hidden)
    ]


# ------------------------------------------------------------- what keeps the volume


@pytest.mark.parametrize(
    ("modes", "rule"),
    [
        ((rules.MANY,), {"claim-many-writers": "unsafe"}),
        ((rules.ONE_NODE, rules.MANY), {"claim-many-writers": "unsafe"}),
        ((rules.ONE_NODE,), {"claim-many-pods": "unsafe"}),
        ((rules.ONE_POD,), {}),
        ((), {"claim-many-writers": "unknown"}),
    ],
)
def test_who_else_may_mount_a_claim(modes: tuple[str, ...], rule: Any) -> None:
    assert found(pod_with(replace(SAFE, access_modes=modes))) == {**ON_ITS_NODE, **rule}


FLUSHES_IGNORED = {"claim-flushes-ignored": "unsafe"}
FLUSHES_DELAYED = {"claim-flushes-delayed": "unsafe"}
FLUSHES_UNKNOWN = {"claim-flushes-off": "unknown"}
ONE_COPY = {"claim-one-copy": "unsafe"}
LONGHORN, LINSTOR, PORTWORX = (
    "driver.longhorn.io",
    "linstor.csi.linbit.com",
    "pxd.portworx.com",
)


@pytest.mark.parametrize(
    ("provisioner", "parameters", "wanted"),
    [
        (LONGHORN, {"numberOfReplicas": "3"}, FLUSHES_IGNORED),
        (LONGHORN, {"numberOfReplicas": "1"}, {**FLUSHES_IGNORED, **ONE_COPY}),
        (LONGHORN, {"numberOfReplicas": "2", "dataEngine": "v2"}, {}),
        ("io.openebs.csi-mayastor", {"repl": "1"}, ONE_COPY),
        ("io.openebs.csi-mayastor", {"repl": "2"}, {}),
        (LINSTOR, {}, ONE_COPY),
        (LINSTOR, {"linstor.csi.linbit.com/placementCount": "2"}, {}),
        (LINSTOR, {"autoPlace": "3"}, {}),
        (LINSTOR, {"linstor.csi.linbit.com/nodeList": "a b"}, {}),
        (
            LINSTOR,
            {"autoPlace": "2", "DrbdOptions/Net/protocol": "A"},
            {"claim-asynchronous": "unsafe"},
        ),
        (
            LINSTOR,
            {
                "autoPlace": "2",
                "property.linstor.csi.linbit.com/DrbdOptions/Disk/disk-flushes": "no",
            },
            {"claim-flushes-off": "unsafe"},
        ),
        (PORTWORX, {"repl": "1"}, ONE_COPY),
        (PORTWORX, {"repl": "2", "io_profile": "db_remote"}, FLUSHES_DELAYED),
        (PORTWORX, {"repl": "3", "io_profile": "auto"}, FLUSHES_DELAYED),
        (PORTWORX, {"repl": "3", "io_profile": "none"}, {}),
        (PORTWORX, {"repl": "3", "io_profile": "journal"}, {}),
        (PORTWORX, {"repl": "3"}, FLUSHES_UNKNOWN),
        (PORTWORX, {"io_profile": "auto"}, FLUSHES_UNKNOWN),
        ("rook-ceph.rbd.csi.ceph.com", {}, {}),
        ("ebs.csi.aws.com", {}, {}),
    ],
)
def test_storage_of_other_machines_and_what_its_class_says(
    provisioner: str, parameters: Mapping[str, str], wanted: Mapping[str, str]
) -> None:
    assert found(made_by(provisioner, parameters)) == {**ELSEWHERE, **wanted}


@pytest.mark.parametrize(
    ("provisioner", "parameters", "modes"),
    [
        ("nfs.csi.k8s.io", {}, (rules.ONE_POD,)),
        ("rook-ceph.cephfs.csi.ceph.com", {}, (rules.ONE_POD,)),
        ("cluster.local/nfs-subdir-external-provisioner", {}, (rules.ONE_POD,)),
        ("csi.trident.netapp.io", {"backendType": "ontap-nas"}, (rules.ONE_POD,)),
        # One block device for pods of several nodes: its files are exported.
        ("rook-ceph.rbd.csi.ceph.com", {}, (rules.MANY,)),
    ],
)
def test_a_file_server_is_named_unless_the_mount_was_read(
    provisioner: str, parameters: Mapping[str, str], modes: tuple[str, ...]
) -> None:
    pod = made_by(provisioner, parameters, access_modes=modes)
    assert found(pod)["claim-file-server"] == "unsafe"
    assert "claim-other-machines" not in found(pod)
    assert "claim-file-server" not in found(pod, host=IN_POD)
    on_other_node = replace(pod, container_id="d0d0" * 16)
    assert found(on_other_node, host=IN_POD)["claim-file-server"] == "unsafe"


def test_a_device_that_moves_with_its_machine_is_no_file_server() -> None:
    moves = {"migratable": "true", "numberOfReplicas": "3"}
    assert "claim-file-server" not in found(
        made_by(LONGHORN, moves, access_modes=(rules.MANY,))
    )
    block = {"backendType": "ontap-san"}
    assert found(made_by("csi.trident.netapp.io", block)) == ELSEWHERE


@pytest.mark.parametrize(
    ("provisioner", "parameters"),
    [("csi.example.net", {}), ("csi.trident.netapp.io", {})],
)
def test_a_driver_that_is_not_known_is_not_safe(
    provisioner: str, parameters: Mapping[str, str]
) -> None:
    (one,) = located(made_by(provisioner, parameters))
    assert one.finding.status is RuleStatus.UNKNOWN
    assert provisioner in one.decisive.why


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("local", "claim-one-node"),
        ("nfs", "claim-file-server"),
        ("iscsi", "claim-other-machines"),
        ("hostPath", "claim-node-path"),
    ],
)
def test_a_volume_that_somebody_made_by_hand(kind: str, wanted: str) -> None:
    volume = replace(PV, kind=kind, driver="")
    by_hand = replace(SAFE, volume=volume, storage_class=None)
    assert found(pod_with(by_hand)) == {wanted: "unsafe"}


@pytest.mark.parametrize(
    ("provisioner", "wanted"),
    [
        ("rancher.io/local-path", {"claim-one-node": "unsafe"}),
        ("kubernetes.io/no-provisioner", {"claim-node-path": "unsafe"}),
        ("example.net/paths", {"claim-file-server": "unknown"}),
    ],
)
def test_a_provisioner_keeps_a_pod_at_the_path_that_it_made(
    provisioner: str, wanted: Mapping[str, str]
) -> None:
    volume = replace(PV, kind="hostPath", driver="")
    made = StorageClass("path", provisioner)
    assert found(pod_with(replace(SAFE, volume=volume, storage_class=made))) == wanted
    unread = {"storage class": "storageclasses is forbidden"}
    hidden = replace(SAFE, volume=volume, storage_class=None, unread=unread)
    assert found(pod_with(hidden)) == {"claim-file-server": "unknown"}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("noatime", "nobarrier"), "claim-barrier"),
        (("noatime,barrier=0",), "claim-barrier"),
        (("nostrictsync",), "claim-sync"),
        (("softerr", "nfsvers=4.2"), "claim-nfs-soft"),
    ],
)
def test_a_mount_option_counts_until_the_mount_itself_was_read(
    options: tuple[str, ...], rule: str
) -> None:
    of_volume = pod_with(replace(SAFE, volume=replace(PV, mount_options=options)))
    of_class = pod_with(
        replace(SAFE, volume=None, storage_class=replace(CLASS, mount_options=options))
    )
    assert found(of_volume) == {**ON_ITS_NODE, rule: "unsafe"}
    assert found(of_class)[rule] == "unsafe"
    assert found(of_volume, host=IN_POD) == ON_ITS_NODE


def test_options_of_a_class_do_not_count_where_the_volume_has_none() -> None:
    made = replace(CLASS, mount_options=("nobarrier",))
    assert found(pod_with(replace(SAFE, storage_class=made))) == ON_ITS_NODE
    own = {"autoPlace": "2", "linstor.csi.linbit.com/mountOpts": "noatime,nobarrier"}
    assert found(made_by(LINSTOR, own))["claim-barrier"] == "unsafe"


def test_a_volume_that_goes_with_its_claim_leaves_a_note() -> None:
    deleted = replace(PV, reclaim_policy="Delete")
    assert found(pod_with(replace(SAFE, volume=deleted))) == {
        **ON_ITS_NODE,
        "claim-reclaim-delete": "unsafe",
    }


def test_what_may_not_be_read_is_not_known_and_the_right_is_named() -> None:
    volume = replace(SAFE, volume=None, unread={"volume": DENIED})
    one = next(
        each
        for each in located(pod_with(volume))
        if each.finding.rule.id == "claim-reclaim-delete"
    )
    assert one.finding.status is RuleStatus.UNKNOWN
    assert one.decisive.why == DENIED
    assert "get persistentvolumes (by a ClusterRole)" in one.decisive.remedy
    late = replace(volume, unread={"volume": "timed out"})
    assert {each.decisive.remedy for each in located(pod_with(late))} == {""}
    claim = replace(
        volume,
        storage_class=None,
        access_modes=(),
        unread={"claim": "(403) Reason: Forbidden"},
    )
    assert found(pod_with(claim)) == {
        "claim-many-writers": "unknown",
        "claim-file-server": "unknown",
        "claim-reclaim-delete": "unknown",
        "claim-barrier": "unknown",
    }
    remedies = {each.decisive.remedy for each in located(pod_with(claim))}
    assert remedies == {"let dbcheck's account get persistentvolumeclaims (by a Role)"}


def test_a_class_that_may_not_be_read_hides_copies_and_flushes() -> None:
    pod = made_by(LINSTOR)
    unread = {"storage class": "storageclasses is forbidden"}
    (volume,) = pod.volumes
    hidden = replace(volume, storage_class=None, unread=unread)
    assert found(pod_with(hidden)) == {
        **ELSEWHERE,
        "claim-one-copy": "unknown",
        "claim-flushes-off": "unknown",
    }
    nameless = replace(volume, storage_class=None)
    whys = {each.decisive.why for each in located(pod_with(nameless))}
    assert "the claim names no storage class" in whys


def test_claims_that_are_alike_are_shown_once() -> None:
    subjects = make_pod_subjects([POD, REPLICA], PLACES)
    assert names_of(subjects) == [
        "data, WAL of pod prod/orders-1",
        "data, WAL of pod prod/orders-2",
        "pods prod/orders-1, orders-2",
        "claims prod/pgdata-orders-1, pgdata-orders-2",
    ]
    other = replace(REPLICA, volumes=(replace(SAFE, claim="b", volume=None),))
    assert names_of(make_pod_subjects([POD, other], PLACES))[-2:] == [
        "claim prod/pgdata-orders-1",
        "claim prod/b",
    ]


def test_a_claim_for_backups_is_not_judged_and_one_of_a_linked_log_is() -> None:
    log = replace(SAFE, name="wal", paths=("/var/lib/wal",), claim="wal-orders-1")
    backups = replace(log, name="backups", claim="backups", access_modes=(rules.MANY,))
    pod = pod_with(SAFE, log, backups)
    (claims,) = make_pod_subjects([pod], PLACES)[1:]
    assert claims.name == "claims prod/pgdata-orders-1, wal-orders-1"
    (*_, last) = make_pod_subjects([pod], ())
    assert last.name == "claim prod/backups"


# ------------------------------------------------------------- all pods of a database


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, {}),
        ({"apart": ("topology.kubernetes.io/zone",)}, {}),
        ({"apart": ()}, {"pod-not-apart": "unsafe"}),
        (
            {"apart": (), "preferred_apart": ("kubernetes.io/hostname",)},
            {"pod-not-apart": "unsafe"},
        ),
        ({"apart": (), "node": "node-a"}, {"pod-shared-node": "unsafe"}),
        ({"apart": (), "node": "node-a", "ending": True}, {}),
    ],
)
def test_pods_that_share_a_node_share_its_power(
    changed: Mapping[str, Any], wanted: Mapping[str, str]
) -> None:
    assert found(POD, replace(REPLICA, **changed)) == {**ON_ITS_NODE, **wanted}


def test_pods_are_kept_apart_as_far_as_the_weakest_of_them_says() -> None:
    prefers = replace(REPLICA, apart=(), preferred_apart=("kubernetes.io/hostname",))
    neither = replace(prefers, preferred_apart=())
    for pods, value in (
        ([POD, REPLICA], "required"),
        ([POD, prefers], "preferred"),
        ([prefers, prefers], "preferred"),
        ([POD, prefers, neither], "no"),
    ):
        all_of_them = make_pod_subjects(pods, PLACES)
        values = [each.values.get(rules.APART) for each in all_of_them]
        assert list(filter(None, values)) == [value]


def test_the_pods_that_share_a_node_are_named_with_their_roles() -> None:
    (worst, *_) = located(POD, replace(REPLICA, node="node-a"))
    assert worst.finding.value == "orders-1 (primary), orders-2 (replica) on node-a"
    assert worst.subject.name == "pods prod/orders-1, orders-2"
    assert worst.severity is Severity.WARNING


# ------------------------------------------------------------- the host beside them


def test_the_pod_on_the_host_is_the_one_whose_container_has_the_data() -> None:
    assert find_pod_on_host([REPLICA, POD], IN_POD) is POD
    assert find_pod_on_host([REPLICA], IN_POD) is None
    assert find_pod_on_host([replace(POD, container_id="")], IN_POD) is None
    assert find_pod_on_host([POD], HOST) is None
    assert find_pod_on_host([POD], None) is None


def test_an_empty_dir_is_named_once() -> None:
    path = "/var/lib/kubelet/pods/p1/volumes/kubernetes.io~empty-dir/pgdata/pgdata"
    facts = replace(IN_POD, volumes=(replace(MOUNTED, places={DATA: path}),))
    below = make_subjects(facts, Readings(), 8192, guarded=True)
    empty = pod_with(PodVolume("pgdata", "emptyDir", (MOUNT,)))
    of_pods = make_pod_subjects([empty], PLACES, facts)
    both = [*of_pods, *drop_repeated_facts(below, of_pods)]
    ids = [e.finding.rule.id for e in find_located_findings("postgresql", both)]
    assert "pod-empty-dir" in ids
    assert "fs-empty-dir" not in ids
    others = make_pod_subjects([POD], PLACES, facts)
    assert drop_repeated_facts(below, others) == below
    engine: Any = Engine()
    host: Any = SimpleNamespace(readings=lambda volumes: Readings())
    whole = audit_facts(engine, SERVER, host, facts, pods=Source(empty), places=PLACES)
    assert "pod-empty-dir" in [flag.rule for flag in whole.flags]
    assert "fs-empty-dir" not in [flag.rule for flag in whole.flags]


# ------------------------------------------------------------- the whole audit


class Engine(BareEngine):
    """A server whose places are known."""

    family = "postgresql"
    target = "postgresql://dbcheck@orders/app"

    def facts(self) -> ServerFacts:
        return SERVER

    def places(self, tables: Sequence[object]) -> tuple[Place, ...]:
        return PLACES

    def other_settings(self) -> tuple[()]:
        return ()


class Source:
    """Kubernetes as it answers, or the error with which it does not."""

    def __init__(self, *pods: Pod, error: HostError | None = None) -> None:
        self.pods, self.error = pods, error

    def read(self) -> Sequence[Pod]:
        if self.error is not None:
            raise self.error
        return self.pods


def audited(source: PodSource | None) -> AuditResult:
    engine: Any = Engine()
    return audit_server(engine, None, (), "orders", source)


def drawn(result: AuditResult) -> str:
    console = make_console(width=100)
    with console.capture() as capture:
        console.print(draw_audit(result))
    return capture.get()


FORBIDDEN = HostError(
    'pods is forbidden: User "dbcheck" cannot list resource "pods"',
    id=ErrorId.PRIVILEGE_MISSING,
    hint="Ask for a Role.",
)


def test_an_audit_shows_the_pods_beside_the_server() -> None:
    empty = pod_with(PodVolume("pgdata", "emptyDir", (MOUNT,)))
    result = audited(Source(empty, REPLICA))
    ids = [each.rule for each in result.findings]
    assert ids.index("pod-empty-dir") < ids.index("claim-one-node")
    text = drawn(result)
    assert "the server and its pods were audited, as no host of it was named" in text
    assert "volume: emptyDir  data, WAL of pod prod/orders-1" in text
    assert "  volume claim  claim prod/pgdata-orders-2" in text
    assert "what the server's directories lie on" not in text.partition("looked at")[2]


def test_pods_that_cannot_be_read_are_not_known_and_say_why() -> None:
    result = audited(Source(error=FORBIDDEN))
    (one,) = (each for each in result.findings if each.subject_kind.value == "pod")
    assert one.status is RuleStatus.UNKNOWN
    assert (one.unread, one.remedy) == (str(FORBIDDEN), FORBIDDEN.hint)
    assert summarize_findings(result).startswith("the server alone was audited")
    assert one.remedy in " ".join(drawn(result).split())
    bare = HostError(str(FORBIDDEN), id=ErrorId.PRIVILEGE_MISSING)
    (subject,) = make_unread_pods(str(bare), bare.hint)
    remedy = "let dbcheck's account list pods (by a Role)"
    assert subject.facts[rules.VOLUME].remedy == remedy
    nothing = audited(Source())
    assert "no pod matches the selector" in [each.unread for each in nothing.findings]


def test_a_server_that_is_not_on_kubernetes_has_no_pods() -> None:
    kinds = {each.kind.value for each in audited(None).subjects}
    assert kinds.isdisjoint({"pod", "volume claim"})
    assert make_unread_pods("timed out")[0].facts[rules.VOLUME].remedy == ""


def test_a_run_stores_what_its_audit_found_of_the_pods() -> None:
    shown: list[str] = []
    listener: Any = SimpleNamespace(phase=lambda phase, text: shown.append(text))
    engine: Any = Engine()
    power: Any = None
    empty = pod_with(PodVolume("pgdata", "emptyDir", (MOUNT,)))
    node = Node(engine, power, pods=Source(empty))
    flags = audit_node_before_load(node, SERVER, None, PLACES, listener, set())
    assert flags is not None
    assert "pod-empty-dir" in [each.rule for each in flags]
    (line,) = (each for each in shown if "pod-empty-dir" in each)
    assert line.startswith("error pod-empty-dir: volume is emptyDir (data, WAL of pod")


def test_the_document_has_each_rule_on_pods() -> None:
    text = document.FILE.read_text()
    mine = [each for each in list_all_rules() if each.id.startswith(("pod-", "claim-"))]
    assert mine == [*rules.POD_RULES, *rules.CLAIM_RULES]
    for rule in mine:
        assert f"### {rule.id}\n" in text
        assert rule.harm is None, "a run's settings show no pods"
