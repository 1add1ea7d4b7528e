"""The pod of a server, and what tells it from the pod that was there before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.model.pods import (
    Pod,
    PodRole,
    compare_pods,
    find_pod_of_server,
    find_pod_uid,
    list_primaries,
)
from tests.kit.pods import (
    CONTAINER_ID,
    DATA,
    OTHER_UID,
    POD,
    REPLICA,
    SCRATCH,
    UID,
    cgroup_of,
    with_data,
    with_volume,
)

ANEW = replace(POD, uid=OTHER_UID)  # another pod of the same name
HASH = "0123456789abcdef0123456789abcdef"
PLACES = ("/var/lib/postgresql/data/pgdata",)


@pytest.mark.parametrize(
    ("cgroup", "uid"),
    [
        pytest.param(cgroup_of(POD, systemd=False), UID, id="cgroupfs"),
        pytest.param(cgroup_of(POD), UID, id="systemd"),
        pytest.param(
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID}.slice/x",
            UID,
            id="guaranteed, below a slice of the kubelet's",
        ),
        pytest.param(f"/kubepods/pod{OTHER_UID}/x{cgroup_of(POD)}", UID, id="nested"),
        pytest.param(f"/kubepods/besteffort/pod{HASH}/{CONTAINER_ID}", HASH, id="hash"),
        pytest.param(f"/machine.slice/libpod-{CONTAINER_ID}.scope", "", id="podman"),
        pytest.param(f"/docker/{CONTAINER_ID}", "", id="docker"),
        pytest.param("/system.slice/postgresql.service", "", id="service"),
        pytest.param("", "", id="none"),
    ],
)
def test_a_cgroup_names_its_pod(cgroup: str, uid: str) -> None:
    assert find_pod_uid(cgroup) == uid


def test_the_process_shows_the_pod_whatever_the_api_calls_it() -> None:
    for pod in (POD, REPLICA):
        for systemd in (True, False):
            cgroup = cgroup_of(pod, systemd=systemd)
            assert find_pod_of_server([POD, REPLICA], cgroup) == (pod, "")


def test_a_static_pod_is_known_by_its_container() -> None:
    cgroup = f"/kubepods/burstable/pod{HASH}/{CONTAINER_ID}"
    assert find_pod_of_server([POD, REPLICA], cgroup) == (POD, "")


def test_a_process_in_no_pod_that_is_shown_is_not_one_of_them() -> None:
    strange = replace(POD, uid=OTHER_UID, container_id="e0" * 32)
    found, doubt = find_pod_of_server([POD, REPLICA], cgroup_of(strange))
    assert found is None
    assert OTHER_UID in doubt
    unstarted = replace(POD, container_id="")
    assert find_pod_of_server([unstarted], "/docker/abc")[0] is None


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        ([POD], POD),
        ([POD, REPLICA], POD),
        ([replace(POD, role=PodRole.UNKNOWN)], replace(POD, role=PodRole.UNKNOWN)),
        ([REPLICA], REPLICA),
        ([replace(POD, ending=True)], replace(POD, ending=True)),
        ([replace(POD, ending=True), REPLICA], REPLICA),
        ([POD, replace(REPLICA, role=PodRole.PRIMARY)], None),
        ([replace(POD, role=PodRole.REPLICA), REPLICA], None),
        ([], None),
    ],
)
def test_without_the_process_the_primary_has_the_server(
    pods: list[Pod], found: Pod | None
) -> None:
    pod, doubt = find_pod_of_server(pods)
    assert pod == found
    assert bool(doubt) == (found is None)


def test_another_server_is_known_by_its_pod_from_before() -> None:
    again = replace(REPLICA, uid=OTHER_UID)
    assert find_pod_of_server([POD, again], is_primary=False, known=REPLICA)[0] == again
    assert find_pod_of_server([POD, REPLICA], is_primary=False)[0] == REPLICA
    gone, doubt = find_pod_of_server([POD], is_primary=False, known=REPLICA)
    assert gone is None
    assert "prod/orders-1" in doubt


def test_a_primary_that_is_being_deleted_is_none() -> None:
    assert list_primaries([POD, replace(REPLICA, role=PodRole.PRIMARY)])[1:]
    assert list_primaries([replace(POD, ending=True), REPLICA]) == []


@pytest.mark.parametrize(
    ("now", "words"),
    [
        pytest.param(replace(POD, node="node-b"), "on node node-b, not", id="node"),
        pytest.param(replace(POD, machine_id="m9"), "machine", id="machine"),
        pytest.param(with_data(claim="data-9"), "the claim data-9", id="claim"),
        pytest.param(
            with_data(claim_uid="9"),
            "has the claim data-orders-1, which was deleted and made anew",
            id="fresh claim",
        ),
        pytest.param(
            with_data(with_volume(name="pvc-9"), claim_uid="9"),
            "and made anew, bound to another volume: pvc-9, not pvc-0a",
            id="fresh claim for another volume",
        ),
        pytest.param(with_volume(uid="9"), "another volume", id="volume"),
        pytest.param(with_volume(handle="vol-9"), "handle vol-9", id="handle"),
        pytest.param(with_volume(driver="x"), "driver x", id="driver"),
        pytest.param(
            with_volume(name="pvc-9"), "has the claim", id="volume of another name"
        ),
        pytest.param(with_data(kind="emptyDir"), "replaced by emptyDir", id="kind"),
        pytest.param(with_data(paths=("/x",)), "elsewhere: /x", id="path"),
        pytest.param(replace(POD, volumes=(SCRATCH,)), "any more", id="gone"),
        pytest.param(
            replace(
                POD,
                volumes=(*POD.volumes, replace(DATA, name="wal", paths=("/wal",))),
            ),
            "a new volume wal",
            id="one more",
        ),
    ],
)
def test_what_changed_is_named(now: Pod, words: str) -> None:
    assert words in compare_pods(POD, now, PLACES).changed
    assert words in compare_pods(POD, replace(now, uid=OTHER_UID), PLACES).changed


def test_the_same_place_is_the_same_for_the_same_pod_and_for_a_new_one() -> None:
    restarted = replace(POD, container_id="e0" * 32, addresses=())
    for now in (POD, restarted, ANEW, replace(POD, machine_id="")):
        compared = compare_pods(POD, now, PLACES)
        assert compared == compare_pods(POD, POD, PLACES), compared
        assert not compared.changed
        assert not compared.unseen


@pytest.mark.parametrize("kind", ["emptyDir", "csi"])
def test_a_new_pod_has_a_new_volume_if_each_pod_gets_one(kind: str) -> None:
    then = with_data(kind=kind, claim="", claim_uid="", volume=None)
    assert not compare_pods(then, then, PLACES).changed
    for places in (PLACES, ()):
        changed = compare_pods(then, replace(then, uid=OTHER_UID), places).changed
        assert "each pod gets an empty one" in changed
    # Without a place that is known to lie elsewhere, any volume may have the data.
    assert "scratch" in compare_pods(POD, ANEW).changed


def test_a_volume_below_another_one_holds_what_lies_there() -> None:
    wal = replace(SCRATCH, name="wal", paths=("/var/lib/postgresql/data/pgdata/wal/",))
    then = replace(POD, volumes=(DATA, wal))
    now = replace(then, uid=OTHER_UID)
    places = (*PLACES, "/var/lib/postgresql/data/pgdata/wal")
    assert "wal" in compare_pods(then, now, places).changed
    assert not compare_pods(then, now, PLACES).changed


def test_a_path_of_the_node_is_compared() -> None:
    then = with_data(kind="hostPath", path="/srv/a", claim="", volume=None)
    assert not compare_pods(then, replace(then, uid=OTHER_UID), PLACES).changed
    other = with_data(then, path="/srv/b")
    assert "/srv/a was replaced by /srv/b" in compare_pods(then, other, PLACES).changed


def test_a_volume_without_a_name_of_its_own_is_unknown_in_a_new_pod() -> None:
    then = with_data(kind="nfs", claim="", claim_uid="", volume=None)
    assert not compare_pods(then, then, PLACES).unseen
    assert "nfs" in compare_pods(then, replace(then, uid=OTHER_UID), PLACES).unseen


def test_a_pod_without_a_volume_leaves_nothing_to_another() -> None:
    bare = replace(POD, volumes=())
    assert not compare_pods(bare, bare, PLACES).changed
    assert "no volume" in compare_pods(bare, replace(bare, uid=OTHER_UID)).changed


@pytest.mark.parametrize(
    "unread",
    [
        {"volume": None, "unread": {"volume": "may not read it"}},
        {"claim_uid": "", "volume": None, "unread": {"claim": "may not read it"}},
        {"claim_uid": "", "unread": {"claim": "may not read it"}},
    ],
)
def test_what_could_not_be_read_is_no_change(unread: dict[str, Any]) -> None:
    for then, now, when in (
        (with_data(**unread), POD, "before the load"),
        (POD, with_data(**unread), "after the cut"),
    ):
        compared = compare_pods(then, now, PLACES)
        assert not compared.changed
        assert f"could not be read {when}: may not read it" in compared.unseen


def test_a_change_counts_although_something_else_is_unread() -> None:
    hidden = replace(
        DATA, name="wal", paths=("/wal",), volume=None, unread={"volume": "no"}
    )
    then = replace(POD, volumes=(hidden, DATA))
    now = replace(POD, volumes=(hidden, replace(DATA, claim_uid="9")))
    assert "made anew" in compare_pods(then, now, PLACES).changed


def test_another_folder_of_a_volume_is_another_place() -> None:
    """A restore may have put a copy beside the data, on the same claim."""
    then = with_data(folders=("data",))
    assert not compare_pods(then, replace(then, uid=OTHER_UID), PLACES).changed
    for folders in ((), ("restored",)):
        now = with_data(replace(then, uid=OTHER_UID), folders=folders)
        assert "another folder" in compare_pods(then, now, PLACES).changed
    swapped = with_data(then, paths=("/a", "/b"), folders=("a", "b"))
    same = with_data(then, paths=("/b", "/a"), folders=("b", "a"))
    assert not compare_pods(swapped, same).changed
    other = with_data(then, paths=("/a", "/b"), folders=("b", "a"))
    assert "another folder" in compare_pods(swapped, other).changed


def test_what_is_on_no_volume_may_be_gone_with_its_pod() -> None:
    """As the layer of a container is; a symbolic link may lead to a volume."""
    places = (*PLACES, "/wal")
    assert not compare_pods(POD, POD, places).unseen
    compared = compare_pods(POD, ANEW, places)
    assert not compared.changed and "/wal is on no volume" in compared.unseen
