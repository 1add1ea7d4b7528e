"""The pods after the cut, which an API may show late."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, HostError, TargetChanged, UsageError
from dbcheck.cycle.recovery import pods_again
from dbcheck.cycle.recovery.pods_again import (
    explain_moved_pod,
    find_pods_again,
    has_restarted,
    read_pods_again,
)
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.host import Container
from dbcheck.model.places import Place
from dbcheck.model.pods import Pod, PodRole, PodsAfter
from dbcheck.model.records import Manifest
from dbcheck.ports.site import Node
from tests.kit.host_samples import after
from tests.kit.pods import POD, REPLICA, Pods, cgroup_of, showing, with_data
from tests.kit.refusals import refused
from tests.kit.rigs import Said
from tests.kit.samples import MANIFEST

ANY: Any = None
REFUSED = HostError("connection refused", id=ErrorId.HOST_UNREACHABLE)
NOW = replace(POD, container_id="e0" * 32)  # a node starts a new one
UNREAD = with_data(volume=None, unread={"volume": "forbidden"})


class Clock:
    """The time; a second passes whenever somebody sleeps."""

    def __init__(self) -> None:
        self.now_s, self.slept = 100.0, 0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.slept += 1


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(pods_again, "time", found)
    return found


def source(*answers: Sequence[Pod] | HostError) -> Pods:
    """Return a source with these answers, the last of which stays."""

    def each() -> Iterator[Sequence[Pod] | HostError]:
        yield from answers
        while True:
            yield answers[-1]

    left = each()

    def read() -> Sequence[Pod]:
        answer = next(left)
        if isinstance(answer, HostError):
            raise answer
        return answer

    return Pods(read)


def ask(pods: Pods, said: Said, before: Pod | None = POD, **options: Any) -> Any:
    """Return what is read again of a server that is the primary."""
    node = Node(ANY, ANY, pods=pods)
    options = {"is_primary": True, **options}
    return read_pods_again(node, said, before, options.pop("host", None), **options)


def test_nothing_is_asked_about_a_server_that_was_in_no_pod() -> None:
    pods = showing(POD)
    assert ask(pods, Said(), None) is None
    assert pods.asked == 0
    node = Node(ANY, ANY)
    assert read_pods_again(node, Said(), POD, None, is_primary=True) is None


def test_what_shows_the_server_is_taken_at_once(clock: Clock) -> None:
    said = Said()
    assert ask(showing(NOW, REPLICA), said) == PodsAfter((NOW, REPLICA))
    assert (clock.slept, said.text) == (0, "")


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(REFUSED, id="the API does not answer yet"),
        pytest.param([], id="no pod yet"),
        pytest.param([replace(NOW, role=PodRole.UNKNOWN), REPLICA], id="no primary"),
        pytest.param(
            [replace(UNREAD, container_id="e1")], id="its volume cannot be read yet"
        ),
        pytest.param([POD], id="its node has not reported yet"),
    ],
)
def test_what_comes_late_is_waited_for(
    late: Sequence[Pod] | HostError, clock: Clock
) -> None:
    said = Said()
    assert ask(source(late, late, [NOW]), said) == PodsAfter((NOW,))
    assert clock.slept == 2
    assert said.text.count("asking Kubernetes again") == 1


def test_the_pod_of_the_process_is_waited_for(clock: Clock) -> None:
    facts = replace(after().facts or ANY, container=Container(1, cgroup_of(REPLICA)))
    host = replace(after(), facts=facts)
    found = ask(source([POD], [POD, REPLICA]), Said(), host=host)
    assert (found.pods, clock.slept) == ((POD, REPLICA), 1)


def test_the_process_shows_the_restart_of_its_container(clock: Clock) -> None:
    facts = replace(after().facts or ANY, container=Container(1, cgroup_of(NOW)))
    found = ask(showing(POD), Said(), host=replace(after(), facts=facts))
    assert (found.pods, clock.slept) == ((POD,), 0)


def test_another_server_may_have_kept_its_container(clock: Clock) -> None:
    assert ask(showing(POD), Said(), is_primary=False) == PodsAfter((POD,))
    assert clock.slept == 0


def test_the_wait_ends(clock: Clock) -> None:
    assert ask(source(REFUSED), Said()) == PodsAfter(failure="connection refused")
    assert clock.slept == pods_again.API_S
    assert ask(source([REPLICA, REPLICA]), Said()).pods == (REPLICA, REPLICA)


def test_an_api_that_was_waited_for_is_asked_once_more(clock: Clock) -> None:
    found = ask(source(REFUSED), Said(), waits=False)
    assert (found.failure, clock.slept) == ("connection refused", 0)


def test_what_could_not_be_read_before_is_not_waited_for(clock: Clock) -> None:
    now = replace(UNREAD, container_id="e1")
    assert ask(showing(now), Said(), UNREAD) == PodsAfter((now,))
    assert clock.slept == 0


def test_an_interrupt_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    stub = SimpleNamespace(raise_if_interrupted=interrupted)
    monkeypatch.setattr(pods_again, "interrupt", stub)
    with pytest.raises(KeyboardInterrupt):
        ask(source(REFUSED), Said())


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([POD], ""),
        ([replace(POD, uid="9"), REPLICA], ""),
        ([replace(POD, node="node-b")], "pod prod/orders-1 came back on node node-b"),
        ([UNREAD], "could not be read after the cut: forbidden"),
        ([REPLICA, REPLICA], "no primary"),
        (REFUSED, "could not be asked: connection refused"),
    ],
)
def test_a_pod_with_other_volumes_is_seen_after_a_restart(
    pods: Sequence[Pod] | HostError, words: str
) -> None:
    place = Place("data", f"{POD.volumes[0].paths[0]}/pgdata")
    before = replace(MANIFEST.writer, pod=POD, places=(place,))
    node = Node(ANY, ANY, pods=source(pods))
    found = explain_moved_pod(node, Said(), before, is_primary=True)
    assert words in found
    assert bool(found) == bool(words)


def test_a_server_in_no_pod_has_none_that_moves() -> None:
    node = Node(ANY, ANY, pods=showing(POD))
    assert explain_moved_pod(node, Said(), MANIFEST.writer, is_primary=True) == ""


OF_PAIR: Manifest = replace(
    MANIFEST,
    nodes={pod.name: replace(MANIFEST.writer, pod=pod) for pod in (POD, REPLICA)},
    writer_name=POD.name,
    site=SiteKind.STREAMING,
    promise=Promise.WRITER_GONE,
)
SITE: Any = object()


def find(
    pods: Pods,
    said: Said,
    *refusals: DbcheckError,
    restarted: Collection[str] = (POD.name,),
) -> Any:
    """Return the site that is found; it is refused as often as there are refusals."""
    left, asked = list(refusals), list[str]()

    def find_nodes(leads: str) -> Any:
        asked.append(leads)
        if left:
            raise left.pop(0)
        return SITE

    rig: Any = SimpleNamespace(
        site=SimpleNamespace(writer=Node(ANY, ANY, pods=pods)),
        limits=SimpleNamespace(return_s=20.0),
        listener=said,
        find_nodes=find_nodes,
    )
    found = find_pods_again(rig, OF_PAIR, REPLICA.name, restarted)
    assert set(asked) == {REPLICA.name}
    return found


MOVED = replace(NOW, uid="another", node="node-c", addresses=("192.0.2.77",))


@pytest.mark.parametrize(
    ("late", "why"),
    [
        (REFUSED, "connection refused"),
        ([REPLICA], "pod prod/orders-1 is not there"),
        (
            [POD, REPLICA],
            "pod prod/orders-1 is shown with its container from before the cut",
        ),
        ([replace(MOVED, ending=True), REPLICA], "pod prod/orders-1 is being deleted"),
    ],
)
def test_each_pod_of_the_run_is_waited_for(
    late: Sequence[Pod] | HostError, why: str, clock: Clock
) -> None:
    """The address that the API shows may be that of before the cut."""
    said = Said()
    assert find(source(late, late, [MOVED, REPLICA]), said) is SITE
    assert clock.slept == 2 and said.text.count(f"waiting for the pods: {why}") == 1
    with refused(ErrorId.NODE_NOT_REBUILT, naming=("after 20 s", why)) as error:
        find(source(late), Said())
    assert "--resume" in error.value.hint


def test_a_pod_that_did_not_lose_its_power_stays_as_it_is() -> None:
    assert find(showing(POD, REPLICA), Said(), restarted=()) is SITE


@pytest.mark.parametrize("gone", [True, False])
def test_a_pod_of_another_name_is_another_node(gone: bool, clock: Clock) -> None:
    new = replace(MOVED, name="orders-4")
    pods = showing(*(() if gone else (NOW,)), REPLICA, new)
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="orders-4") as error:
        find(pods, Said())
    assert ("pod prod/orders-1 is gone" in str(error.value)) is gone
    assert clock.slept == 0


def test_pods_of_another_namespace_are_other_nodes() -> None:
    pods = [replace(pod, namespace="test") for pod in (NOW, REPLICA)]
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="pod test/orders-1"):
        find(showing(*pods), Said())


def test_the_reason_that_a_pod_cannot_be_cut_is_the_one_at_the_end(
    clock: Clock,
) -> None:
    no_host = UsageError(
        "no host for node-c", id=ErrorId.KUBERNETES_NODE_UNKNOWN, hint="Add it."
    )
    pods = showing(MOVED, REPLICA)
    assert find(pods, Said(), no_host) is SITE
    with refused(ErrorId.NODE_NOT_REBUILT, naming="no host for node-c") as error:
        find(pods, Said(), *[no_host] * 99)
    assert error.value.hint.startswith("Add it.")


def test_a_new_container_shows_that_a_node_has_power() -> None:
    assert has_restarted(Node(ANY, ANY, pods=showing(NOW)), POD)
    for shown in (showing(POD), showing(REPLICA), source(REFUSED), None):
        assert not has_restarted(Node(ANY, ANY, pods=shown), POD)
    assert not has_restarted(Node(ANY, ANY, pods=showing(NOW)), None)
