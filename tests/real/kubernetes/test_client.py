"""Requests to the API of Kubernetes, over a stand-in, and each way they fail."""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.decoding import decode_json
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.config.target import KubernetesSettings
from dbcheck.kubernetes import client as asking
from dbcheck.kubernetes import kubeconfig as configuring
from dbcheck.kubernetes.pods import DatabasePods
from dbcheck.model.pods import Pod, PodRole
from dbcheck.runs import stored
from tests.kit.kubernetes.answers import Refusal
from tests.kit.kubernetes.api import Fault, StandInApi, open_api, read_rights
from tests.kit.kubernetes.database import CLASS, NAMESPACE, put_database
from tests.kit.kubernetes.store import Object
from tests.kit.refusals import refused

SECRET = "not-to-be-shown"
ROLE = Path(__file__).parents[3] / "docs/guides/kubernetes/role.yaml"


@pytest.fixture
def api() -> Iterator[StandInApi]:
    with open_api() as api:
        put_database(api.store)
        yield api


@pytest.fixture
def settings(api: StandInApi, tmp_path: Path) -> KubernetesSettings:
    path = api.kubeconfig(tmp_path, namespace=NAMESPACE)
    return KubernetesSettings("app=orders", kubeconfig=path)


def change_cluster(settings: KubernetesSettings, **changed: Any) -> None:
    """Put something else into the cluster of the kubeconfig."""
    assert settings.kubeconfig is not None
    content = json.loads(settings.kubeconfig.read_text())
    content["clusters"][0]["cluster"] |= changed
    settings.kubeconfig.write_text(json.dumps(content))


def rewrite(settings: KubernetesSettings, **user: Any) -> None:
    """Put another login into the kubeconfig."""
    assert settings.kubeconfig is not None
    content = json.loads(settings.kubeconfig.read_text())
    content["users"][0]["user"] = user
    settings.kubeconfig.write_text(json.dumps(content))


def test_a_pod_is_read_with_its_node_claim_volume_and_class(
    settings: KubernetesSettings,
) -> None:
    (pod,) = DatabasePods(settings).read()
    assert (pod.named, pod.node) == ("pod prod/orders-0", "worker-1")
    assert pod.machine_id == "machine-of-worker-1"
    assert pod.boot_id == "boot-of-worker-1"
    assert (pod.container, pod.container_id) == ("postgres", "0123abcd")
    assert (pod.addresses, pod.role) == (("127.0.0.2",), PodRole.UNKNOWN)
    assert (pod.ready, pod.ending) == (True, False)
    data, scratch = pod.volumes
    assert (data.claim, data.paths) == ("data-orders-0", ("/var/lib/postgresql",))
    assert data.volume is not None and data.storage_class is not None
    assert (data.volume.kind, data.volume.handle) == ("local", "/srv/data")
    assert data.storage_class.provisioner == "kubernetes.io/no-provisioner"
    assert (scratch.kind, scratch.medium) == ("emptyDir", "Memory")
    assert pod.unread == data.unread == {}


def test_all_pages_of_a_list_are_read(
    api: StandInApi, settings: KubernetesSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_database(api.store, ["worker-1"] * 5)
    monkeypatch.setattr(asking, "_PAGE_PODS", 2)
    assert len(DatabasePods(settings).read()) == 5
    monkeypatch.setattr(asking, "_PODS_MAX", 4)
    with refused(
        ErrorId.KUBERNETES_PRIMARY_UNCLEAR, HostError, naming="more than 4 pods"
    ):
        DatabasePods(settings).read()


def test_pods_that_ended_or_have_no_node_are_left_out(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    put_database(api.store, ["worker-1"] * 3)
    api.store.change("Pod", "orders-0", {"status": {"phase": "Failed"}}, NAMESPACE)
    api.store.change("Pod", "orders-1", {"spec": {"nodeName": ""}}, NAMESPACE)
    assert [pod.name for pod in DatabasePods(settings).read()] == ["orders-2"]
    api.store.change("Pod", "orders-2", {"status": {"phase": "Succeeded"}}, NAMESPACE)
    with refused(ErrorId.KUBERNETES_POD_MISSING, naming="none of 3 runs"):
        DatabasePods(settings).read()
    with refused(ErrorId.KUBERNETES_POD_MISSING, naming="there is none"):
        DatabasePods(replace(settings, selector="app=other")).read()


def test_the_container_is_named_if_there_are_several(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    containers = [{"name": "one"}, {"name": "two"}]
    api.store.change("Pod", "orders-0", {"spec": {"containers": containers}}, NAMESPACE)
    with refused(ErrorId.KUBERNETES_CONTAINER_UNKNOWN, naming="several containers"):
        DatabasePods(settings).read()
    (pod,) = DatabasePods(replace(settings, container="two")).read()
    assert pod.container == "two"
    with refused(ErrorId.KUBERNETES_CONTAINER_UNKNOWN, naming="no container three"):
        DatabasePods(replace(settings, container="three")).read()


def test_a_pooler_of_an_operator_has_no_server(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    pooler = {"labels": {"cnpg.io/cluster": "orders", "cnpg.io/podRole": "pooler"}}
    change = {"metadata": pooler, "spec": {"containers": [{"name": "pgbouncer"}]}}
    api.store.change("Pod", "orders-0", change, NAMESPACE)
    with refused(ErrorId.KUBERNETES_CONTAINER_UNKNOWN, naming="of CloudNativePG"):
        DatabasePods(settings).read()


@pytest.mark.parametrize(
    "plural, fact",
    [
        ("persistentvolumeclaims", "claim"),
        ("persistentvolumes", "volume"),
        ("storageclasses", "storage class"),
    ],
)
def test_what_the_rights_do_not_show_is_named(
    api: StandInApi, settings: KubernetesSettings, plural: str, fact: str
) -> None:
    api.forbid("get", plural)
    (pod,) = DatabasePods(settings).read()
    assert list(pod.volumes[0].unread) == [fact]
    assert "cannot get resource" in pod.volumes[0].unread[fact]


def test_a_node_that_the_rights_do_not_show_has_no_machine_id(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    api.forbid("get", "nodes")
    (pod,) = DatabasePods(settings).read()
    assert pod.machine_id == "" and "cannot get resource" in pod.unread["node"]


def test_the_role_of_the_guide_is_what_is_used(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    rights = read_rights(ROLE)
    api.grant_only(rights)
    (pod,) = DatabasePods(settings).read()
    assert pod.unread == pod.volumes[0].unread == {}
    assert {(asked.verb, asked.plural) for asked in api.asked} == {
        (right.verb, right.plural) for right in rights
    }


def test_refused_requests_say_what_to_do(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    api.forbid("list", "pods")
    with refused(ErrorId.KUBERNETES_REFUSED, HostError, naming="cannot list") as error:
        DatabasePods(settings).read()
    assert "Role" in error.value.hint
    api.revoke()
    with refused(ErrorId.KUBERNETES_REFUSED, naming="Unauthorized") as again:
        DatabasePods(settings).read()
    assert "kubectl auth whoami" in again.value.hint


@pytest.mark.parametrize("fault", [Fault.TORN, Fault.CLOSED, Fault.HANGS, Fault.DRIPS])
def test_an_api_that_does_not_answer_is_an_error(
    api: StandInApi,
    settings: KubernetesSettings,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "_TIMEOUT_S", (5.0, 0.5))
    monkeypatch.setattr(asking, "_ANSWER_S", 1.0)
    api.fail(fault)
    with refused(ErrorId.KUBERNETES_NOT_ANSWERING, HostError):
        DatabasePods(settings).read()
    assert len(DatabasePods(settings).read()) == 1  # it was asked once


@pytest.mark.parametrize(
    "fault", [Fault.TOO_MANY, Fault.FAILS, Fault.UNAVAILABLE, Fault.ELSEWHERE]
)
def test_an_api_that_fails_says_why(
    api: StandInApi, settings: KubernetesSettings, fault: Fault
) -> None:
    api.fail(fault)
    with refused(ErrorId.KUBERNETES_REFUSED, HostError):
        DatabasePods(settings).read()
    assert len(DatabasePods(settings).read()) == 1  # no hidden second try


@pytest.mark.parametrize("fault", [Fault.NO_OBJECT, Fault.NO_JSON])
def test_what_is_no_answer_of_the_api_is_refused(
    api: StandInApi, settings: KubernetesSettings, fault: Fault
) -> None:
    api.fail(fault)
    with refused(ErrorId.KUBERNETES_NOT_ANSWERING, naming="something else"):
        DatabasePods(settings).read()


def test_another_server_than_the_kubeconfig_trusts_is_refused(
    settings: KubernetesSettings, tmp_path: Path
) -> None:
    with open_api() as stranger:
        content = json.loads((settings.kubeconfig or tmp_path).read_text())
        content["clusters"][0]["cluster"]["server"] = stranger.url
        path = tmp_path / "other"
        path.write_text(json.dumps(content))
        with refused(ErrorId.KUBERNETES_NOT_ANSWERING, naming="SSL"):
            DatabasePods(replace(settings, kubeconfig=path)).read()
        assert stranger.asked == []


def test_the_first_kubeconfig_decides_the_context_as_for_kubectl(
    settings: KubernetesSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_api() as other:
        (folder := tmp_path / "other").mkdir()
        second = other.kubeconfig(folder, context="other")
        paths = [tmp_path / "absent", settings.kubeconfig, second]
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
        assert len(DatabasePods(replace(settings, kubeconfig=None)).read()) == 1
        assert other.asked == []


@pytest.mark.parametrize(
    "content, named",
    [
        ("", "cannot be used"),
        ("- a list", "cannot be used"),
        ("a: [", "cannot be used"),
        ("{}", "has no current-context"),
        (
            "{current-context: x, contexts: [{name: y, context: {cluster: c}}],"
            " clusters: [], users: []}",
            "has no context x, but y",
        ),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}]"
            f", clusters: [], users: [{{name: u, usr: {{token: {SECRET}}}}}]}}",
            "cannot be used",
        ),
    ],
)
def test_a_wrong_kubeconfig_is_named_without_its_content(
    tmp_path: Path, content: str, named: str
) -> None:
    (path := tmp_path / "config").write_text(content)
    settings = KubernetesSettings("app=orders", kubeconfig=path)
    with refused(ErrorId.KUBECONFIG_INVALID, HostError, naming=named) as error:
        DatabasePods(settings).read()
    assert str(path) in str(error.value) and SECRET not in str(error.value)


def test_an_absent_kubeconfig_and_a_context_that_it_lacks_are_named(
    settings: KubernetesSettings, tmp_path: Path
) -> None:
    absent = replace(settings, kubeconfig=tmp_path / "absent")
    with refused(ErrorId.KUBECONFIG_INVALID, naming="does not exist"):
        DatabasePods(absent).read()
    with refused(ErrorId.KUBECONFIG_INVALID, naming="no context x, but stand-in"):
        DatabasePods(replace(settings, context="x")).read()


def test_the_library_is_needed_at_once(
    settings: KubernetesSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused(ErrorId.KUBERNETES_NOT_INSTALLED, UsageError) as error:
        DatabasePods(settings)
    assert "dbcheck[kubernetes]" in error.value.hint


def test_a_namespace_is_a_name(
    api: StandInApi, settings: KubernetesSettings, tmp_path: Path
) -> None:
    (folder := tmp_path / "other").mkdir()
    path = api.kubeconfig(folder, namespace="..")
    for wrong in (
        replace(settings, namespace=".."),
        replace(settings, kubeconfig=path),
        replace(settings, namespace="a" * 64),
    ):
        with refused(ErrorId.KUBECONFIG_INVALID, HostError, naming="namespace"):
            DatabasePods(wrong).read()
    assert api.asked == []


def test_a_login_program_that_fails_is_no_login(
    settings: KubernetesSettings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The library would go on without a login, and log what the program wrote."""
    log_in_by(settings, tmp_path / "login", f"echo {SECRET} >&2\nexit 3")
    before = list(logging.root.handlers)
    with refused(ErrorId.KUBECONFIG_INVALID, HostError, naming="login failed"):
        DatabasePods(settings).read()
    assert SECRET not in "".join(capfd.readouterr())
    assert logging.root.handlers == before


def test_a_token_file_may_end_with_a_newline(
    api: StandInApi, settings: KubernetesSettings, tmp_path: Path
) -> None:
    (token := tmp_path / "token").write_text(f"{api.token}\n")
    rewrite(settings, tokenFile=str(token))
    assert len(DatabasePods(settings).read()) == 1


def test_no_file_of_a_login_is_left(
    settings: KubernetesSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    for _ in range(2):  # the library remembers the files of the first time
        assert len(DatabasePods(settings).read()) == 1
        assert list(place.iterdir()) == []


def test_without_a_kubeconfig_the_account_of_the_own_pod_is_used(
    api: StandInApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    settings = KubernetesSettings("app=orders")
    with refused(ErrorId.KUBECONFIG_INVALID, naming="does not exist"):
        DatabasePods(settings).read()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
    with refused(ErrorId.KUBECONFIG_INVALID, naming="service account of this pod"):
        DatabasePods(settings).read()
    for name, content, of in (
        ("token", f"{api.token}\n", "SERVICE_TOKEN_FILENAME"),
        ("ca.crt", api.authority, "SERVICE_CERT_FILENAME"),
    ):
        (path := tmp_path / name).write_text(content)
        monkeypatch.setattr(incluster_config, of, str(path))
    (own := tmp_path / "namespace").write_text(NAMESPACE)
    monkeypatch.setattr(configuring, "_OWN_NAMESPACE", own)
    (pod,) = DatabasePods(settings).read()
    assert pod.volumes[0].storage_class is not None
    assert pod.volumes[0].storage_class.name == CLASS


@pytest.mark.parametrize(
    "proxy", ["socks5://127.0.0.1:1", "ftp://proxy", "proxy", "http://[::1", 7]
)
def test_a_proxy_that_cannot_be_used_is_named(
    settings: KubernetesSettings, proxy: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "socks", None)  # as if it were not installed
    change_cluster(settings, **{"proxy-url": proxy, "server": "https://192.0.2.1"})
    with refused(ErrorId.KUBECONFIG_INVALID, HostError, naming="proxy"):
        DatabasePods(settings).read()


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_no_token_is_sent_without_encryption(
    settings: KubernetesSettings, scheme: str
) -> None:
    """The library takes an address without a scheme for one with http."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        change_cluster(
            settings, server=f"{scheme}127.0.0.1:{listener.getsockname()[1]}"
        )
        with refused(ErrorId.KUBECONFIG_INVALID, HostError, naming="https"):
            DatabasePods(settings).read()
        assert select.select([listener], [], [], 0)[0] == []  # nobody connected


@pytest.mark.parametrize(
    "kind, change",
    [
        ("Pod", {"persistentVolumeClaim": "text"}),
        ("Pod", {"persistentVolumeClaim": {"claimName": 7}}),
        ("Pod", {"emptyDir": {"medium": 7}}),
        ("Pod", {"hostPath": {"path": None}}),
        ("PersistentVolume", {"local": "text"}),
        ("PersistentVolume", {"local": None, "csi": {"driver": 7}}),
        ("PersistentVolume", {"mountOptions": 7}),
        ("PersistentVolume", {"mountOptions": [7]}),
        ("PersistentVolume", {"persistentVolumeReclaimPolicy": 7}),
    ],
)
def test_what_an_api_never_has_can_be_stored(
    api: StandInApi, settings: KubernetesSettings, kind: str, change: dict[str, Any]
) -> None:
    if kind == "Pod":
        change = {"volumes": [{"name": "data", **change}]}
        api.store.change(kind, "orders-0", {"spec": change}, NAMESPACE)
    else:
        api.store.change(kind, "volume-orders-0", {"spec": change})
    (pod,) = DatabasePods(settings).read()
    assert decode_json(stored.to_bytes(pod), Pod) == pod


def test_a_list_without_an_end_is_refused(
    api: StandInApi, settings: KubernetesSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_PODS_MAX", asking._PAGE_PODS)
    page = {"metadata": {"continue": "on"}, "items": []}
    monkeypatch.setattr(api, "_list", lambda *_: page)
    with refused(ErrorId.KUBERNETES_NOT_ANSWERING, HostError, naming="without an end"):
        DatabasePods(settings).read()


def log_in_by(settings: KubernetesSettings, program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "interactiveMode": "Never",
    }
    rewrite(settings, exec=run)


def test_a_login_program_that_does_not_end_is_ended(
    settings: KubernetesSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuring, "_LOGIN_S", 0.2, raising=False)
    log_in_by(settings, tmp_path / "login", "exec sleep 20")
    began = time.monotonic()
    with refused(ErrorId.KUBECONFIG_INVALID, HostError, naming="login failed"):
        DatabasePods(settings).read()
    assert time.monotonic() - began < 10


def test_a_login_program_gets_no_password_of_a_database(
    settings: KubernetesSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBCHECK_PASSWORD", SECRET)
    monkeypatch.setenv("ANYTHING_ELSE", "kept")
    log_in_by(settings, tmp_path / "login", f"env > {tmp_path}/seen; exit 3")
    with refused(ErrorId.KUBECONFIG_INVALID, HostError):
        DatabasePods(settings).read()
    seen = (tmp_path / "seen").read_text()
    assert "ANYTHING_ELSE=kept" in seen and SECRET not in seen


def test_the_folders_of_a_volume_that_are_mounted_are_read(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    mounts = [
        {"name": "data", "mountPath": "/data", "subPath": "pgdata"},
        {"name": "data", "mountPath": "/wal", "subPathExpr": "$(POD_NAME)"},
        {"name": "data", "mountPath": "/all"},
    ]
    containers = [{"name": "postgres", "volumeMounts": mounts}]
    api.store.change("Pod", "orders-0", {"spec": {"containers": containers}}, NAMESPACE)
    (pod,) = DatabasePods(settings).read()
    assert pod.volumes[0].paths == ("/data", "/wal", "/all")
    assert pod.volumes[0].folders == ("pgdata", "$(POD_NAME)", "")


def test_a_refusal_that_never_ends_is_no_answer(
    api: StandInApi, settings: KubernetesSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_ANSWER_S", 1.0)
    api.forbid("list", "pods")
    api.fail(Fault.DRIPS)
    began = time.monotonic()
    with refused(ErrorId.KUBERNETES_NOT_ANSWERING, HostError):
        DatabasePods(settings).read()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("long", [100_000, 70_000_000])
def test_a_long_answer_is_cut_short(
    api: StandInApi, settings: KubernetesSettings, long: int
) -> None:
    def refuse(*_: object) -> Object:
        raise Refusal(403, "Forbidden", "no" * (long // 2))

    api._list = refuse  # type: ignore[method-assign, assignment]
    id = ErrorId.KUBERNETES_REFUSED if long < 1e6 else ErrorId.KUBERNETES_NOT_ANSWERING
    with refused(id, HostError) as error:
        DatabasePods(settings).read()
    assert len(str(error.value)) < 2_000


def test_secrets_of_volumes_are_not_kept(
    api: StandInApi, settings: KubernetesSettings
) -> None:
    """A share of SMB is mounted with a password, and GlusterFS had one of its API."""
    options = ["hard", f"vers=3,password={SECRET},mfsymlinks"]
    api.store.change(
        "PersistentVolume", "volume-orders-0", {"spec": {"mountOptions": options}}
    )
    given = {"restuserkey": SECRET, "replicas": "3"}
    changed = {"parameters": given, "mountOptions": options}
    api.store.change("StorageClass", CLASS, changed)
    (pod,) = DatabasePods(settings).read()
    assert SECRET not in repr(pod)
    volume, of_class = pod.volumes[0].volume, pod.volumes[0].storage_class
    assert volume is not None and of_class is not None
    assert volume.mount_options == of_class.mount_options
    assert volume.mount_options == ("hard", "vers=3,password=(hidden),mfsymlinks")
    assert of_class.parameters == {"restuserkey": "(hidden)", "replicas": "3"}
