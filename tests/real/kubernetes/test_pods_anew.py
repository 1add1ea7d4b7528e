"""A cluster in pods that are elsewhere after a cut: each is found again, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.rebuild import may_be_off
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load_inventory
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.records import CutAsked
from dbcheck.ports.site import Node
from dbcheck.runner import campaign_run, placement
from dbcheck.runner.campaign_fleet import LOCAL, require_workers
from dbcheck.runner.campaign_plan import Goal, make_plan
from dbcheck.runner.guard import require_nodes_stay
from dbcheck.runner.placement import Placement, find_placed_targets
from dbcheck.runs.folder import RunFolder
from tests.kit.kubernetes.api import StandInApi
from tests.kit.kubernetes.api import empty_api as empty_api
from tests.kit.kubernetes.database import NAMESPACE, put_database
from tests.kit.kubernetes.inventories import cluster, write
from tests.kit.pods import POD
from tests.kit.refusals import refused
from tests.kit.rigs import Said
from tests.kit.stored_run import manifest

SERVICE = "postgresql+psycopg2://dbcheck@orders.prod.svc/app"
AUTO = "dbcheck_rebuilt_by: auto"


class Checked(list[tuple[str, bool, bool]]):
    """The hosts that were checked before a cut, and the flags of the user."""

    def check(self, host: Entry, _: Any, *, yes: bool, i_know: bool) -> None:
        self.append((host.machine, yes, i_know))


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Checked:
    made = Checked()
    monkeypatch.setattr(placement, "check_interlocks", made.check)
    return made


def begin(path: Path) -> Placement:
    (entry,) = find_placed_targets(load_inventory(path), ["orders"])
    return Placement(entry, Said(), yes=True, i_know=False)


def find(placed: Placement, leads: str) -> dict[str, Node]:
    """Return the nodes that are found now, the one that leads first."""
    assert placed.find_nodes is not None
    site = placed.find_nodes(leads)
    assert site.writer_name == leads
    return dict(site.nodes)


def address_of(node: Node) -> str:
    return node.engine.endpoints()[0][0]


def readdress(api: StandInApi, pod: str, address: str) -> None:
    status = {"status": {"podIPs": [{"ip": address}]}}
    api.store.change("Pod", pod, status, NAMESPACE)


def test_a_pod_is_loaded_at_its_address_of_now(
    api: StandInApi, tmp_path: Path, checked: Checked
) -> None:
    """Nothing of the cycle before is left: not even of the pod that stayed."""
    placed = begin(cluster(api, tmp_path, AUTO))
    assert placed.entry.name == "orders-1"
    nodes = find(placed, "orders-2")
    assert address_of(nodes["orders-1"]) == "127.0.0.3"
    readdress(api, "orders-1", "127.0.0.99")
    again = find(placed, "orders-2")
    assert list(again) == ["orders-2", "orders-0", "orders-1"]
    assert address_of(again["orders-1"]) == "127.0.0.99"
    assert all(again[name].engine is not nodes[name].engine for name in nodes)
    assert placed.entry.name == "orders-2"
    assert [each.target for each in placed.entry.standbys][-1].endswith("127.0.0.99")
    assert checked == []  # the hosts are those of the beginning


def test_a_pod_that_moved_has_the_switch_of_its_new_node(
    api: StandInApi, tmp_path: Path, checked: Checked
) -> None:
    path = cluster(api, tmp_path, AUTO)
    text = path.read_text()
    fourth = "        worker-4:\n          outlet: d\n"
    path.write_text(text + fourth)
    put_database(api.store, ["worker-4"], name="other")  # so that there is that node
    placed = begin(path)
    for outlet in "abcd":
        (tmp_path / outlet).write_text("on\n")
    api.store.move_pod("orders-1", "worker-4", NAMESPACE)
    moved = find(placed, "orders-2")["orders-1"]
    assert "worker-4" in moved.restore_command
    (tmp_path / "d").write_text("off\n")
    assert may_be_off(moved)
    assert checked == [("worker-4", True, False)]
    expected = {h.machine: h.expected.machine_id for h in placed.entry.cut_in_turn}
    assert expected["worker-4"] == "machine-of-worker-4"
    find(placed, "orders-2")
    assert len(checked) == 1  # it is one of the hosts by now


def test_a_pod_on_a_node_without_a_switch_is_refused(
    api: StandInApi, tmp_path: Path, checked: Checked
) -> None:
    placed = begin(cluster(api, tmp_path, AUTO))
    put_database(api.store, ["worker-9"], name="other")
    api.store.move_pod("orders-1", "worker-9", NAMESPACE)
    with refused(ErrorId.KUBERNETES_NODE_UNKNOWN, naming=("worker-9", "orders-1")):
        find(placed, "orders-2")


def test_each_pod_has_a_node_of_its_own_before_each_cut(
    api: StandInApi, tmp_path: Path, checked: Checked
) -> None:
    """The standbys, too: after a cut one of them takes the load."""
    path = cluster(api, tmp_path, AUTO)
    placed = begin(path)
    api.store.move_pod("orders-0", "worker-3", NAMESPACE)
    for leads in ("orders-1", "orders-2"):
        with refused(ErrorId.KUBERNETES_PODS_SHARE_NODE, naming="worker-3"):
            find(placed, leads)
    with refused(ErrorId.KUBERNETES_PODS_SHARE_NODE, UsageError, naming="orders-0"):
        begin(path)


def test_a_pod_without_an_address_is_not_found(
    api: StandInApi, tmp_path: Path, checked: Checked
) -> None:
    placed = begin(cluster(api, tmp_path, AUTO))
    api.store.change("Pod", "orders-1", {"status": {"podIPs": []}}, NAMESPACE)
    with refused(ErrorId.POD_NOT_READY, naming="no address yet"):
        find(placed, "orders-2")


def test_what_needs_no_search_has_none(api: StandInApi, tmp_path: Path) -> None:
    put_database(api.store)
    assert begin(write(api, tmp_path)).find_nodes is None  # one server
    assert Placement(Entry("db1", "postgresql://h/d"), Said()).find_nodes is None


def test_the_plan_has_the_url_of_the_service(api: StandInApi, tmp_path: Path) -> None:
    """The primary's address is another one when the campaign is resumed."""
    entry = begin(cluster(api, tmp_path, AUTO)).entry
    plan = make_plan(entry, 1, Goal(1), keep_going=False, control=False, twice=False)
    assert (plan.name, plan.target) == ("orders", SERVICE)


def test_it_is_no_target_of_a_fleet_or_a_matrix(
    api: StandInApi, tmp_path: Path
) -> None:
    entry = begin(cluster(api, tmp_path, AUTO)).entry
    with refused(ErrorId.ONE_HOST_NEEDED, UsageError, naming="orders is a cluster"):
        require_nodes_stay(entry)
    with refused(ErrorId.ONE_HOST_NEEDED, UsageError, naming="orders is a cluster"):
        require_workers(LOCAL, [entry])


def cut_run(api: StandInApi, folder: Path) -> tuple[CampaignFolder, Path]:
    """Return a campaign whose client ended after the cut of orders-1 on worker-2."""
    path = cluster(api, folder, AUTO)
    entry = begin(path).entry
    plan = make_plan(entry, 1, Goal(2), keep_going=False, control=False, twice=False)
    campaign = CampaignFolder.create(folder / "campaign", plan)
    stored = manifest()
    nodes = {
        f"orders-{number}": replace(
            stored.writer,
            target=f"{SERVICE}?hostaddr=192.0.2.{number}",
            pod=replace(POD, name=f"orders-{number}", node=f"worker-{number + 1}"),
        )
        for number in range(3)
    }
    stored = replace(
        stored,
        site=SiteKind.STREAMING,
        promise=Promise.WRITER_GONE,
        nodes=nodes,
        writer_name="orders-1",
    )
    run = RunFolder.create(campaign.runs, stored)
    run.remember()
    run.write_cut_asked(CutAsked(1))
    return campaign, path


def resume(campaign: CampaignFolder, path: Path) -> Entry:
    begun = campaign_run.find_newest_runs([campaign])
    (entry,) = find_placed_targets(load_inventory(path), ["orders"], begun)
    campaign_run.require_same(entry, campaign, yes=True)
    return entry


def test_a_campaign_is_resumed_while_the_old_writer_has_no_power(
    api: StandInApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pod is gone, and the switch is that of the node that was cut."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    campaign, path = cut_run(api, tmp_path)
    readdress(api, "orders-0", "127.0.0.77")
    api.store.remove("Pod", "orders-1", NAMESPACE)
    entry = resume(campaign, path)
    assert (entry.name, entry.machine) == ("orders-1", "second")
    assert entry.standbys[0].target.endswith("127.0.0.77")


def test_a_campaign_is_resumed_on_its_own_pods_alone(
    api: StandInApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    campaign, path = cut_run(api, tmp_path)
    text = path.read_text()
    path.write_text(text.replace("orders.prod.svc", "billing.prod.svc"))
    with refused(ErrorId.CAMPAIGN_OF_OTHER_TARGET, UsageError, naming="billing"):
        resume(campaign, path)
    path.write_text(text)
    api.store.remove("Pod", "orders-0", NAMESPACE)
    with refused(ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming="orders-0"):
        resume(campaign, path)


def test_a_cut_of_the_node_that_a_pod_has_left_is_judged_by_hand(
    api: StandInApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    campaign, path = cut_run(api, tmp_path)
    entry = resume(campaign, path)
    campaign_run.require_node_of_runs(entry, campaign)
    standby = replace(entry.standbys[0], standbys=(replace(entry, machine="worker-1"),))
    with refused(ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming="worker-1 now"):
        campaign_run.require_node_of_runs(standby, campaign)
