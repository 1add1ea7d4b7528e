"""A witness in a pod shares neither a node nor storage with the database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.kubernetes.apart import require_other_storage
from dbcheck.model.pods import PersistentVolume, Pod, PodRole, PodVolume, StorageClass
from tests.kit.refusals import refused

FAST = StorageClass("fast", "block.csi.example.net", {"replicas": "3"})
SLOW = StorageClass("slow", "block.csi.example.net")
FILES = StorageClass("files", "files.csi.example.net")
BY_HAND = StorageClass("local", "kubernetes.io/no-provisioner")


def csi(name: str, made_by: StorageClass, handle: str = "") -> PersistentVolume:
    return PersistentVolume(
        name, f"uid-{name}", "csi", made_by.provisioner, handle or f"vol-{name}"
    )


def claim(
    name: str, volume: PersistentVolume | None, made_by: StorageClass | None
) -> PodVolume:
    return PodVolume(
        "data",
        "persistentVolumeClaim",
        ("/data",),
        claim=name,
        claim_uid=f"uid-{name}",
        volume=volume,
        storage_class=made_by,
    )


def local(name: str, path: str, made_by: StorageClass = BY_HAND) -> PodVolume:
    kind = PersistentVolume(name, f"uid-{name}", "local", handle=path)
    return claim(name, kind, made_by)


def pod(name: str, node: str, *volumes: PodVolume) -> Pod:
    return Pod(
        "prod",
        name,
        f"uid-{name}",
        node,
        "postgres",
        ("10.0.0.1",),
        PodRole.UNKNOWN,
        volumes,
    )


def unread(name: str, **why: str) -> PodVolume:
    return replace(claim(name, None, None), unread=why)


ON_FAST = claim("pgdata", csi("pv-1", FAST), FAST)
DATABASE = (
    pod("orders-1", "n1", ON_FAST),
    pod("orders-2", "n2", claim("pgdata-2", csi("pv-2", FAST), FAST)),
)
ON_FILES = claim("acks", csi("pv-9", FILES), FILES)
IN_POD = PodVolume("scratch", "emptyDir", ("/data",))


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_no_node_of_the_database_may_have_the_witness(node: str) -> None:
    """Any of its pods may be the primary by the time of the cut."""
    with refused(ErrorId.WITNESS_ON_TARGET, UsageError, naming=("witness-0", node)):
        require_other_storage(DATABASE, pod("witness-0", node, ON_FILES))


SHARED = [
    pytest.param(ON_FAST, "the claim pgdata", id="one claim"),
    pytest.param(
        claim("acks", csi("pv-1", FAST), FAST), "the volume pv-1", id="one volume"
    ),
    pytest.param(
        claim("acks", csi("pv-9", FAST, "vol-pv-1"), FAST),
        "pv-9 and pv-1 are one volume",
        id="two objects for one volume",
    ),
    pytest.param(
        claim("acks", csi("pv-9", FAST), FAST), "the storage class fast", id="one class"
    ),
    pytest.param(
        claim("acks", None, FAST), "the storage class fast", id="class alone is known"
    ),
    pytest.param(
        claim("acks", csi("pv-9", SLOW), SLOW),
        "both are of block.csi.example.net",
        id="one driver, another class",
    ),
    pytest.param(
        claim("acks", csi("pv-9", SLOW), None),
        "both are of block.csi.example.net",
        id="the volume alone is known",
    ),
    pytest.param(
        claim("acks", None, SLOW),
        "both are of block.csi.example.net",
        id="the other class alone is known",
    ),
]


@pytest.mark.parametrize(("mine", "shown"), SHARED)
def test_the_database_storage_may_not_have_the_log(mine: PodVolume, shown: str) -> None:
    witness = pod("witness-0", "n9", mine)
    with refused(ErrorId.WITNESS_ON_DATABASE_STORAGE, UsageError, naming=shown):
        require_other_storage(DATABASE, witness)


def test_the_same_kind_of_network_filesystem_is_refused() -> None:
    """Also where a pod names its server without a claim."""
    volume = PersistentVolume("pv-1", "uid-1", "nfs", handle="nas:/pg")
    database = [pod("orders-1", "n1", claim("pgdata", volume, None))]
    mine = PodVolume("acks", "nfs", ("/data",))
    with refused(ErrorId.WITNESS_ON_DATABASE_STORAGE, naming="both are of nfs"):
        require_other_storage(database, pod("witness-0", "n9", mine))


def test_an_ephemeral_volume_of_the_database_has_a_class_too() -> None:
    theirs = replace(ON_FAST, kind="ephemeral")
    mine = claim("acks", csi("pv-9", FAST), FAST)
    with refused(ErrorId.WITNESS_ON_DATABASE_STORAGE, naming="fast"):
        require_other_storage(
            [pod("orders-1", "n1", theirs)], pod("witness-0", "n9", mine)
        )


APART = [
    pytest.param(ON_FAST, ON_FILES, id="another driver"),
    pytest.param(
        local("pv-1", "/mnt/disk"), local("pv-9", "/mnt/disk"), id="disks of two nodes"
    ),
    pytest.param(ON_FAST, local("pv-9", "/mnt/disk"), id="network, and a local disk"),
    pytest.param(local("pv-1", "/mnt/disk"), ON_FILES, id="local disk, and network"),
    pytest.param(
        claim("pgdata", csi("pv-1", StorageClass("lvm", "topolvm.io")), None),
        claim("acks", csi("pv-9", StorageClass("lvm", "topolvm.io")), None),
        id="one driver of disks of the nodes",
    ),
    pytest.param(
        ON_FAST,
        PodVolume("acks", "hostPath", ("/data",), path="/srv/acks"),
        id="a path of the node",
    ),
    pytest.param(
        claim("pgdata", PersistentVolume("pv-1", "uid-1", "nfs"), BY_HAND),
        claim(
            "acks",
            PersistentVolume("pv-9", "uid-9", "iscsi"),
            replace(BY_HAND, name="other"),
        ),
        id="two classes of volumes made by hand",
    ),
    pytest.param(
        PodVolume("data", "emptyDir", ("/data",)), ON_FILES, id="database in its pod"
    ),
]


@pytest.mark.parametrize(("theirs", "mine"), APART)
def test_other_storage_is_said_to_be_other(theirs: PodVolume, mine: PodVolume) -> None:
    database, witness = pod("orders-1", "n1", theirs), pod("witness-0", "n9", mine)
    assert require_other_storage([database], witness, "/data/acks") == (
        "pod prod/witness-0 is on the node n9, without the database, and its log is on"
        " other storage"
    )


def test_a_class_of_volumes_made_by_hand_is_one_storage_unless_they_are_local() -> None:
    """As two LUNs of one array, which an administrator wrote down."""
    theirs = claim("pgdata", PersistentVolume("pv-1", "uid-1", "iscsi"), BY_HAND)
    mine = claim("acks", PersistentVolume("pv-9", "uid-9", "fc"), BY_HAND)
    with refused(ErrorId.WITNESS_ON_DATABASE_STORAGE, naming="class local"):
        require_other_storage(
            [pod("orders-1", "n1", theirs)], pod("witness-0", "n9", mine)
        )


NOT_KEPT = [
    pytest.param((IN_POD,), "/data/acks", "scratch (emptyDir)", id="emptyDir"),
    pytest.param((IN_POD,), "", "scratch (emptyDir)", id="emptyDir, folder unknown"),
    pytest.param(
        (replace(ON_FILES, kind="ephemeral"),),
        "/data",
        "data (ephemeral)",
        id="ephemeral",
    ),
    pytest.param(
        (replace(IN_POD, kind="csi"),), "/data", "scratch (csi)", id="CSI ephemeral"
    ),
    pytest.param((ON_FILES,), "/home/witness/acks", "no volume", id="the layer"),
    pytest.param((ON_FILES,), "/database/acks", "no volume", id="another name"),
    pytest.param((), "", "no volume", id="no volumes at all"),
    pytest.param(
        (ON_FILES, replace(IN_POD, paths=("/data/acks",))),
        "/data/acks/orders",
        "scratch (emptyDir)",
        id="a volume over a volume",
    ),
]


@pytest.mark.parametrize(("volumes", "folder", "shown"), NOT_KEPT)
def test_the_log_may_not_go_with_its_pod(
    volumes: tuple[PodVolume, ...], folder: str, shown: str
) -> None:
    witness = pod("witness-0", "n9", *volumes)
    with refused(ErrorId.WITNESS_FOLDER_GOES_WITH_POD, UsageError, naming=shown):
        require_other_storage(DATABASE, witness, folder)


def test_only_the_volume_with_the_folder_counts() -> None:
    runs = replace(claim("runs", csi("pv-8", FAST), FAST), paths=("/runs",))
    witness = pod("witness-0", "n9", runs, ON_FILES, replace(IN_POD, paths=("/tmp",)))
    assert "other storage" in require_other_storage(DATABASE, witness, "/data/acks")
    with refused(ErrorId.WITNESS_ON_DATABASE_STORAGE):
        require_other_storage(DATABASE, witness)


def test_what_is_not_known_is_said() -> None:
    hidden = unread("acks", volume="HTTP status 403")
    said = require_other_storage(DATABASE, pod("witness-0", "n9", hidden))
    assert said == (
        "pod prod/witness-0 is on the node n9, without the database; the storage was"
        " not compared: that of acks of pod prod/witness-0 is not known (volume: HTTP"
        " status 403)"
    )
    database = [pod("orders-1", "n1", unread("pgdata"))]
    said = require_other_storage(database, pod("witness-0", "n9", ON_FILES))
    assert said.endswith("that of pgdata of pod prod/orders-1 is not known")
    on_disk = pod("witness-0", "n9", local("pv-9", "/mnt/disk"))
    assert "not compared" not in require_other_storage(database, on_disk)
