"""The stand-in for an API server answers as a real one does.

Both have the same objects, and the official client asks both.
"""

from __future__ import annotations

import contextlib
import json
import random
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from kubernetes import client

from dbcheck.lab.certificates import IdentityFiles
from tests.kit.kubernetes.api import StandInApi, open_api, read_rights
from tests.kit.kubernetes.clients import Answer, ask, open_client
from tests.kit.kubernetes.clusters import MARKS, cluster_in
from tests.kit.kubernetes.samples import NAMESPACE, SELECTOR, make_orders, make_pod
from tests.kit.kubernetes.store import RESOURCES, Object
from tests.kit.waiting import wait_until
from tools.kubernetes.objects import (
    end_controllers,
    name_object,
    put_objects,
    remove_object,
)
from tools.kubernetes.state import Cluster

pytestmark = MARKS
ROLE = Path(__file__).parents[3] / "docs/guides/kubernetes/role.yaml"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
# What dbcheck asks for: (verb, resource) -> the path.
READS = {
    ("list", "pods"): PODS,
    ("get", "persistentvolumeclaims"): f"{CLAIMS}/orders-1",
    ("get", "persistentvolumes"): "/api/v1/persistentvolumes/pv-1",
    ("get", "storageclasses"): f"{CLASSES}/fast",
    ("get", "nodes"): "/api/v1/nodes/node1",
}
# What it has no right to.
MORE = [
    f"{PODS}/orders-1",
    "/api/v1/pods",
    "/api/v1/namespaces//pods",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/dbcheck/pods/orders-1",
    CLAIMS,
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    CLASSES,
    f"/api/v1/namespaces/{NAMESPACE}/services",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/orders",
]
ABSENT = [
    f"{PODS}/orders-9",
    f"{CLAIMS}/orders-9",
    "/api/v1/persistentvolumes/pv-9",
    "/api/v1/nodes/node9",
    f"{CLASSES}/slow",
    "/api/v1/namespaces/nowhere/pods/orders-1",
    f"{PODS}/a/b",
    f"{PODS}/orders%2F1",
    "/api/v1/oddities",
    "/api/v1/nodes/node1/oddity",
]
SELECTORS = [
    "",
    SELECTOR,
    f"{SELECTOR},role=primary",
    "role in (primary, replica),!empty",
    "role notin (primary)",
    "role!=primary",
    "role",
    "!role",
    "empty=",
    "empty in ()",
    "empty in (,x)",
    "ordinal>1,ordinal<3",
    "ordinal>0",
    "in=x",
    " role = primary , ordinal == 1 ",
]
REFUSED = [
    "role===x",
    "-a=b",
    "a/b/c=d",
    "UPPER.example/a=b",
    "a=-b",
    "a in",
    "a in b",
    "a b",
    "a=b,",
    ",",
    "=b",
    "!",
    "!a=b",
    "a>x",
    "a>",
    "a>-1",
    "a=)",
    "a in (b",
    "a in (b,=)",
    "a in (=)",
    "a=(b",
    "a=" + "x" * 64,
    "a" * 64,
    "(a)",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("kubernetes") / "cluster") as made:
        put_objects(made, make_orders())
        end_controllers(made)
        yield made


@pytest.fixture(scope="module")
def real(cluster: Cluster) -> Iterator[client.ApiClient]:
    with open_client(cluster.kubeconfig) as opened:
        yield opened


@pytest.fixture(scope="module")
def objects(cluster: Cluster) -> list[Object]:
    """Return what the real server has of all that the stand-in knows."""
    kinds = ",".join(resource.qualified for resource in RESOURCES.values())
    found = cluster.kubectl("get", kinds, "-A", "-o", "json")
    return list(json.loads(found)["items"])


@pytest.fixture
def api(objects: list[Object]) -> Iterator[StandInApi]:
    """Yield a stand-in that has what the real server has."""
    with open_api() as api:
        for found in objects:
            api.store.put(found["kind"], found)
        yield api


@pytest.fixture
def stand_in(api: StandInApi, tmp_path: Path) -> Iterator[client.ApiClient]:
    with open_client(api.kubeconfig(tmp_path)) as opened:
        yield opened


def without_revision(answer: Answer) -> Answer:
    """Return a list without what differs: its revision, and where it goes on.

    The stand-in writes objects in another order, so theirs differ as well.
    """
    content = json.loads(json.dumps(answer.content))
    token = content["metadata"].pop("continue", None)
    content["metadata"] |= {"resourceVersion": "", "continues": bool(token)}
    for one in [content, *(content.get("items") or [])]:
        one["metadata"]["resourceVersion"] = ""
        # kubectl leaves these out; no reader may depend on them.
        one["metadata"].pop("managedFields", None)
    return Answer(answer.status, content)


@pytest.mark.parametrize("read", [*READS.values(), f"{PODS}/orders-1"])
def test_a_read_object_is_the_same(
    real: client.ApiClient, stand_in: client.ApiClient, read: str
) -> None:
    expected = ask(real, read)
    assert expected.status == 200
    assert without_revision(ask(stand_in, read)) == without_revision(expected)


def test_samples_are_what_a_real_server_has(
    cluster: Cluster, real: client.ApiClient
) -> None:
    for sample in make_orders():
        resource = RESOURCES[sample["kind"]]
        start = f"/apis/{resource.group}/v1" if resource.group else "/api/v1"
        if resource.namespaced:
            start += f"/namespaces/{NAMESPACE}"
        found = ask(real, f"{start}/{resource.plural}/{sample['metadata']['name']}")
        assert keep_what_is_in(sample, found.content) == sample


def test_a_pod_that_is_removed_is_gone_and_may_come_again(
    cluster: Cluster, real: client.ApiClient
) -> None:
    """Another one of its name has another uid; one that is ending says since when."""
    pod = make_pod("passing", "node2")
    uids = []
    for _ in range(2):
        put_objects(cluster, [pod])
        path = f"{PODS}/passing"
        uids.append(ask(real, path).content["metadata"]["uid"])
        cluster.kubectl("delete", *name_object(pod), "--wait=false")
        assert "deletionTimestamp" in ask(real, path).content["metadata"]
        remove_object(cluster, pod)
        assert ask(real, path).status == 404
    assert uids[0] != uids[1]


def keep_what_is_in(sample: Any, found: Any) -> Any:
    """Return what *found* has of the keys that *sample* has."""
    if isinstance(sample, Mapping) and isinstance(found, Mapping):
        return {
            key: keep_what_is_in(value, found[key])
            for key, value in sample.items()
            if key in found
        }
    if isinstance(sample, list) and isinstance(found, list):
        pairs = zip(sample, found, strict=True)
        return [keep_what_is_in(one, other) for one, other in pairs]
    return found


@pytest.mark.parametrize("selector", SELECTORS + REFUSED)
def test_a_selector_finds_or_refuses_the_same(
    real: client.ApiClient, stand_in: client.ApiClient, selector: str
) -> None:
    expected = ask(real, PODS, labelSelector=selector)
    assert expected.status == (400 if selector in REFUSED else 200)
    compare_lists(expected, ask(stand_in, PODS, labelSelector=selector))


def test_drawn_selectors_find_or_refuse_the_same(
    real: client.ApiClient, stand_in: client.ApiClient
) -> None:
    draw = random.Random(20)
    words = ["role", "ordinal", "empty", "primary", "replica", "1", "2", "in", "notin"]
    signs = ["=", "==", "!=", "!", "(", ")", ",", "<", ">", " ", " in (", " notin ("]
    found = set()
    for _ in range(400):
        drawn = [draw.choice(words)]
        for _ in range(draw.randrange(6)):
            drawn.append(draw.choice(signs if draw.random() < 0.6 else words))
        selector = "".join(drawn)
        expected = ask(real, PODS, labelSelector=selector)
        found.add((expected.status, len(expected.content.get("items", []))))
        compare_lists(expected, ask(stand_in, PODS, labelSelector=selector))
    assert {status for status, _ in found} == {200, 400}
    assert len(found) > 4


def compare_lists(expected: Answer, answer: Answer) -> None:
    if expected.status == 200:
        assert without_revision(answer) == without_revision(expected)
    else:
        texts = [one.content.pop("message") for one in (answer, expected)]
        assert answer == expected
        # The rules for labels, which some have at their end, are not repeated.
        assert texts[1].startswith(texts[0].removesuffix("not a valid label")), texts


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("selector", ["", SELECTOR, "role=replica", "role=none"])
def test_pages_are_the_same(
    real: client.ApiClient, stand_in: client.ApiClient, limit: int, selector: str
) -> None:
    pages = []
    for asked in (real, stand_in):
        token = ""
        found: list[Answer] = []
        while not found or token:
            going_on = {"continue": token} if token else {}
            page = ask(asked, PODS, labelSelector=selector, limit=limit, **going_on)
            token = page.content["metadata"].get("continue", "")
            found.append(without_revision(page))
        pages.append(found)
    assert pages[0] == pages[1]


def test_an_old_page_is_refused_in_the_same_way(
    cluster: Cluster, real: client.ApiClient, api: StandInApi, tmp_path: Path
) -> None:
    with open_client(api.kubeconfig(tmp_path)) as stand_in:
        answers = []
        for asked in (real, stand_in):
            page = ask(asked, PODS, limit=1)
            if asked is real:
                compact(cluster, int(page.content["metadata"]["resourceVersion"]) + 5)
            else:
                api.store.put("Node", {"metadata": {"name": "another"}})
                api.store.compact()
            token = page.content["metadata"]["continue"]
            gone = ask(asked, PODS, limit=1, **{"continue": token})
            assert gone.status == 410
            onward = gone.content["metadata"].pop("continue")
            rest = ask(asked, PODS, **{"continue": onward})
            answers.append((gone, without_revision(rest)))
        assert answers[0] == answers[1]


def compact(cluster: Cluster, revision: int) -> None:
    """Have etcd forget what is older; its gateway takes JSON (etcd, dev-guide)."""
    command = cluster.read_programs()["etcd"].command
    url = command[command.index(next(w for w in command if "advertise-client" in w))]
    tls = cluster.folder / "tls"
    files = IdentityFiles(tls / "ca.pem", tls / "server.pem", tls / "server.key")
    for number in range(6):
        cluster.kubectl("annotate", "node", "node3", "--overwrite", f"x={number}")
    request = urllib.request.Request(
        f"{url.partition('=')[2]}/v3/kv/compaction",
        json.dumps({"revision": revision, "physical": True}).encode(),
    )
    with urllib.request.urlopen(request, context=files.for_client(), timeout=30):
        pass


@pytest.mark.parametrize("path", ABSENT)
def test_what_is_absent_is_refused_in_the_same_way(
    real: client.ApiClient, stand_in: client.ApiClient, path: str
) -> None:
    expected = ask(real, path)
    assert expected.status == 404
    assert ask(stand_in, path) == expected


@pytest.mark.parametrize(
    "query", [{"limit": "x"}, {"continue": "xx"}, {"continue": "e30"}]
)
def test_a_wrong_query_is_refused_in_the_same_way(
    real: client.ApiClient, stand_in: client.ApiClient, query: dict[str, str]
) -> None:
    compare_lists(ask(real, PODS, **query), ask(stand_in, PODS, **query))


def test_the_version_has_the_same_fields(
    real: client.ApiClient, stand_in: client.ApiClient
) -> None:
    expected, found = ask(real, "/version").content, ask(stand_in, "/version").content
    assert found.keys() == expected.keys()
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in expected.items()
    }


def test_lists_of_no_name_are_the_same(
    real: client.ApiClient, stand_in: client.ApiClient
) -> None:
    """An empty name asks for all, and so does an empty namespace."""
    for path in (f"{PODS}/", "/api/v1/namespaces//pods", "/api/v1/pods", CLASSES):
        expected = ask(real, path)
        assert expected.content["items"]
        assert without_revision(ask(stand_in, path)) == without_revision(expected)
    nowhere = "/api/v1/namespaces/nowhere/pods"
    assert ask(real, nowhere).content["items"] == []
    assert ask(stand_in, nowhere).content["items"] == []


def test_a_wrong_token_is_refused_in_the_same_way(
    cluster: Cluster, api: StandInApi, tmp_path: Path
) -> None:
    kubeconfig = api.kubeconfig(tmp_path)
    with (
        open_client(cluster.kubeconfig, "wrong") as real,
        open_client(kubeconfig, "wrong") as stand_in,
    ):
        assert ask(real, PODS).status == 401
        assert ask(stand_in, PODS) == ask(real, PODS)


@pytest.fixture(scope="module")
def manifests(cluster: Cluster) -> list[Object]:
    """Return the objects of the guide's file, which the cluster then has."""
    cluster.kubectl("apply", "-f", str(ROLE))
    return [part for part in yaml.safe_load_all(ROLE.read_text()) if part]


@contextlib.contextmanager
def account_of(cluster: Cluster) -> Iterator[client.ApiClient]:
    token = cluster.kubectl("create", "token", "dbcheck", "-n", "dbcheck").strip()
    with open_client(cluster.kubeconfig, token) as opened:
        yield opened


def test_the_role_of_the_guide_is_enough_and_allows_nothing_else(
    cluster: Cluster, manifests: list[Object], api: StandInApi, tmp_path: Path
) -> None:
    """So says the stand-in of the same file."""
    api.grant_only(read_rights(ROLE))
    with (
        account_of(cluster) as account,
        open_client(api.kubeconfig(tmp_path)) as stand_in,
    ):
        for path in READS.values():
            wait_until(lambda path=path: ask(account, path).status == 200, path)  # type: ignore[misc]
            assert ask(stand_in, path).status == 200
        for path in MORE:
            refused = without_policy(ask(account, path))
            assert refused.status == 403
            assert ask(stand_in, path) == refused


@pytest.mark.parametrize("verb, resource", READS)
def test_each_rule_of_the_role_is_needed(
    cluster: Cluster,
    manifests: list[Object],
    api: StandInApi,
    tmp_path: Path,
    verb: str,
    resource: str,
) -> None:
    """The real server names what is missing, and the stand-in says the same."""
    path = READS[verb, resource]
    kept, left = take_rule(manifests, verb, resource)
    with account_of(cluster) as account:
        wait_until(lambda: ask(account, path).status == 200, "the right is there")
        cluster.kubectl("apply", "-f", "-", text=json.dumps(left))
        try:
            wait_until(lambda: ask(account, path).status == 403, "the right is gone")
            refused = without_policy(ask(account, path))
        finally:
            cluster.kubectl("apply", "-f", "-", text=json.dumps(kept))
    assert f'cannot {verb} resource "{resource}"' in refused.content["message"]
    api.forbid(verb, resource)
    with open_client(api.kubeconfig(tmp_path)) as stand_in:
        assert ask(stand_in, path) == refused


def take_rule(
    manifests: list[Object], verb: str, resource: str
) -> tuple[Object, Object]:
    """Return the role that allows it, and the same without."""
    for manifest in manifests:
        for number, rule in enumerate(manifest.get("rules", [])):
            if resource in rule["resources"]:
                left = json.loads(json.dumps(manifest))
                left["rules"][number]["verbs"].remove(verb)
                if not left["rules"][number]["verbs"]:
                    del left["rules"][number]
                return manifest, left
    raise AssertionError(f"no rule for {verb} {resource}")


def without_policy(refused: Answer) -> Answer:
    """Return a refusal without what the policy of tools.kubernetes adds to it."""
    said = refused.content["message"].removesuffix(": No policy matched.")
    return Answer(refused.status, refused.content | {"message": said})
