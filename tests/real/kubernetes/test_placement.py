"""From an entry with dbcheck_kubernetes to the host whose power is cut."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.inventory.load import load_inventory
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.host import Expected
from dbcheck.model.records import CutAsked
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from dbcheck.report.live import make_progress
from dbcheck.runner import assemble, campaign_run
from dbcheck.runner.placement import find_placed_server, place_as_run, place_entry
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.window import WindowLimits
from tests.kit.kubernetes.api import StandInApi
from tests.kit.kubernetes.api import empty_api as empty_api
from tests.kit.kubernetes.database import NAMESPACE, put_database
from tests.kit.kubernetes.inventories import ROLES, cluster, place, write
from tests.kit.nodes import one
from tests.kit.pods import POD
from tests.kit.refusals import refused
from tests.kit.stored_run import manifest


def test_a_target_in_a_pod_has_the_ssh_and_the_switch_of_its_node(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store)
    entry = place(write(api, tmp_path))
    assert (entry.host, entry.machine) == ("ssh://root@worker-1", "worker-1")
    assert entry.target == "postgresql+psycopg2://dbcheck@orders.prod.svc/app"
    assert isinstance(entry.power, ExecConfig) and entry.power.cut == ("cut", "a")
    assert entry.expected == Expected(machine_id="machine-of-worker-1")
    assert entry.switched_host.title == "worker-1"
    assert "reached at ssh://root@worker-1" in entry.switched_host.describe()


def test_the_power_that_is_to_be_restored_is_that_of_the_node(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store)
    path = write(api, tmp_path)
    entry = replace(place(path), power=FenceConfig(agent="fence_dummy"))
    assert entry.restore_command == (
        f"dbcheck power restore worker-1 --inventory {path}"
    )


def test_a_host_may_have_another_name_than_its_node(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store, ["worker-2"])
    entry = place(write(api, tmp_path))
    assert (entry.host, entry.machine) == ("ssh://root@192.0.2.7", "second")
    assert entry.expected.serial == "ABC"


def test_a_node_without_a_host_is_refused(api: StandInApi, tmp_path: Path) -> None:
    put_database(api.store, ["worker-9"])
    with refused(
        ErrorId.KUBERNETES_NODE_UNKNOWN, UsageError, naming=("worker-9", "orders-0")
    ):
        place(write(api, tmp_path))


def test_a_switch_of_two_hosts_is_refused(api: StandInApi, tmp_path: Path) -> None:
    put_database(api.store)
    with refused(ErrorId.HOSTS_SHARE_VALUE, naming=("worker-1", "worker-3")):
        place(write(api, tmp_path, third="a"))


def test_drives_alone_are_not_cut_below_a_pod(api: StandInApi, tmp_path: Path) -> None:
    put_database(api.store)
    path = write(api, tmp_path)
    wrong = "outlet: a\n          dbcheck_power_scope: drive"
    path.write_text(path.read_text().replace("outlet: a", wrong))
    with refused(ErrorId.CONTAINER_ON_CUT_DRIVE, UsageError, naming="worker-1"):
        place(path)


@pytest.mark.parametrize(
    "keys, id, named",
    [
        ("{namespace: prod}", ErrorId.KEY_MISSING, "selector is missing"),
        ("{selector: a, contxt: b}", ErrorId.KEY_UNKNOWN, "'contxt'"),
        ("{selector: ''}", ErrorId.VALUE_INVALID, "selector"),
        ("{selector: ' '}", ErrorId.VALUE_INVALID, "selector"),
        ("[selector]", ErrorId.VALUE_INVALID, "dbcheck_kubernetes"),
        ("true", ErrorId.VALUE_INVALID, "dbcheck_kubernetes"),
    ],
)
def test_wrong_keys_are_named(
    tmp_path: Path, keys: str, id: ErrorId, named: str
) -> None:
    target = f"{{dbcheck_target: 'postgresql://u@h/d', dbcheck_kubernetes: {keys}}}"
    (path := tmp_path / "inventory.yml").write_text(f"all: {{hosts: {{db: {target}}}}}")
    with refused(id, UsageError, naming=named):
        load_inventory(path).entry("db")


def test_a_switch_of_all_hosts_is_not_one_of_the_pods(
    api: StandInApi, tmp_path: Path
) -> None:
    """What the nodes need in common may stand in the vars of all."""
    put_database(api.store)
    path = write(api, tmp_path)
    path.write_text(
        path.read_text().replace("all:\n", "all:\n  vars: {dbcheck_power: fence}\n")
    )
    assert place(path).machine == "worker-1"


def test_an_api_that_refuses_ends_the_command(api: StandInApi, tmp_path: Path) -> None:
    put_database(api.store)
    path = write(api, tmp_path)
    api.forbid("list", "pods")
    with refused(ErrorId.KUBERNETES_REFUSED, HostError):
        place(path)


def test_pods_are_a_cluster_with_the_addresses_of_the_pods(
    api: StandInApi, tmp_path: Path
) -> None:
    writer = place(cluster(api, tmp_path), clusters=True)
    assert (writer.name, writer.machine) == ("orders-1", "second")
    assert writer.target == (
        "postgresql+psycopg2://dbcheck@orders.prod.svc/app?hostaddr=127.0.0.3"
    )
    assert [each.name for each in writer.standbys] == ["orders-0", "orders-2"]
    assert [each.machine for each in writer.standbys] == ["worker-1", "worker-3"]
    assert writer.promoted_by == "auto"  # the operator promotes


@pytest.mark.parametrize(
    "port, declared, expected",
    [
        (":30432", [9187, 5432], ":5432"),  # of a node port, or a load balancer
        (":30432", [], ":30432"),
        (":30432", [9187], ":30432"),
        (":6000", [6000, 5432], ":6000"),
        ("", [5432], ""),
        ("", [], ""),
    ],
)
def test_a_pod_is_reached_at_its_own_port(
    api: StandInApi, tmp_path: Path, port: str, declared: list[int], expected: str
) -> None:
    path = cluster(api, tmp_path)
    path.write_text(path.read_text().replace("prod.svc/", f"prod.svc{port}/"))
    ports = [{"containerPort": each} for each in declared]
    containers = {"containers": [{"name": "postgres", "ports": ports}]}
    api.store.change("Pod", "orders-1", {"spec": containers}, NAMESPACE)
    target = place(path, clusters=True).target
    assert target.partition("?")[0].endswith(f"@orders.prod.svc{expected}/app")


def test_a_url_may_have_no_host_or_an_address_already(
    api: StandInApi, tmp_path: Path
) -> None:
    path = cluster(api, tmp_path)
    text = path.read_text()
    path.write_text(text.replace("orders.prod.svc/app", "/app?service=x"))
    at = "postgresql+psycopg2://dbcheck@127.0.0.3/app?service=x"
    assert place(path, clusters=True).target == at
    path.write_text(text.replace("/app", "/app?hostaddr=127.0.0.9&sslmode=disable"))
    assert place(path, clusters=True).target == (
        "postgresql+psycopg2://dbcheck@orders.prod.svc/app"
        "?hostaddr=127.0.0.3&sslmode=disable"
    )
    mysql = text.replace("postgresql+psycopg2:", "mysql+pymysql:")
    path.write_text(mysql.replace("streaming", "semi-sync"))
    assert place(path, clusters=True).target == "mysql+pymysql://dbcheck@127.0.0.3/app"


def test_who_promotes_may_be_said(api: StandInApi, tmp_path: Path) -> None:
    path = cluster(api, tmp_path, "dbcheck_promoted_by: sql")
    assert place(path, clusters=True).promoted_by == "sql"


def test_the_cluster_needs_each_pod_on_a_node_of_its_own(
    api: StandInApi, tmp_path: Path
) -> None:
    path = cluster(api, tmp_path)
    api.store.move_pod("orders-2", "worker-2", NAMESPACE)
    with refused(
        ErrorId.KUBERNETES_PODS_SHARE_NODE, UsageError, naming=("orders-2", "worker-2")
    ):
        place(path, clusters=True)


@pytest.mark.parametrize("promise", ["writer", "all", "all-writer-gone"])
def test_pods_that_start_again_have_other_addresses(
    api: StandInApi, tmp_path: Path, promise: str
) -> None:
    path = cluster(api, tmp_path, f"dbcheck_survives: {promise}")
    with refused(ErrorId.PROMISE_NOT_TESTABLE, UsageError, naming=promise):
        place(path, clusters=True)


def test_a_pod_without_an_address_is_no_node_of_a_cluster(
    api: StandInApi, tmp_path: Path
) -> None:
    path = cluster(api, tmp_path)
    api.store.change("Pod", "orders-2", {"status": {"podIPs": []}}, NAMESPACE)
    with refused(ErrorId.POD_NOT_READY, naming="no address yet"):
        place(path, clusters=True)


def test_a_pod_with_a_long_name_is_no_node_of_a_cluster(
    api: StandInApi, tmp_path: Path
) -> None:
    path = cluster(api, tmp_path)
    put_database(api.store, ["worker-3"], [ROLES[0]], name="orders" + "x" * 100)
    labels = {"metadata": {"labels": {"app": "orders"}}}
    api.store.change("Pod", "orders" + "x" * 100 + "-0", labels, NAMESPACE)
    with refused(ErrorId.VALUE_INVALID, UsageError, naming="100 characters"):
        place(path, clusters=True)


def test_a_cluster_is_no_single_server(api: StandInApi, tmp_path: Path) -> None:
    path = cluster(api, tmp_path)
    with refused(ErrorId.ONE_HOST_NEEDED, UsageError):
        find_placed_server(load_inventory(path), "orders")
    assert place(path).standbys == ()  # an audit looks at the primary


def set_role(api: StandInApi, pod: str, role: str) -> None:
    labels = {"metadata": {"labels": {"cnpg.io/instanceRole": role}}}
    api.store.change("Pod", pod, labels, NAMESPACE)


def test_two_primaries_or_none_are_refused(api: StandInApi, tmp_path: Path) -> None:
    path = cluster(api, tmp_path)
    set_role(api, "orders-2", "primary")
    with refused(
        ErrorId.KUBERNETES_PRIMARY_UNCLEAR, UsageError, naming="orders-1, orders-2"
    ):
        place(path)
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    api.store.change("Pod", "orders-1", {"status": unready}, NAMESPACE)
    assert place(path).machine == "worker-3"  # Patroni's label of a dead node stays
    for pod in ("orders-1", "orders-2"):
        set_role(api, pod, "replica")
    with refused(ErrorId.KUBERNETES_PRIMARY_UNCLEAR, naming="none of"):
        place(path)


def test_the_pod_that_takes_the_load_may_be_named(
    api: StandInApi, tmp_path: Path
) -> None:
    path = cluster(api, tmp_path, "dbcheck_writer: orders-2")
    assert place(path, clusters=True).name == "orders-2"
    path = write(api, tmp_path, "dbcheck_writer: orders-9")
    with refused(ErrorId.WRITER_NOT_IN_CLUSTER, UsageError, naming="orders-9"):
        place(path)
    for pod in ("orders-0", "orders-1", "orders-2"):
        set_role(api, pod, "none")
    path = write(api, tmp_path, "dbcheck_topology: galera")
    assert place(path, clusters=True).name == "orders-0"


def run(folder: Path, *words: str) -> tuple[int, str]:
    environment: Mapping[str, str] = os.environ | {"XDG_STATE_HOME": str(folder)}
    done = subprocess.run(
        (sys.executable, "-m", "dbcheck", *words, "--inventory", "inventory.yml"),
        cwd=folder,
        env={**environment, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    return done.returncode, said


def test_the_power_of_a_node_is_shown_and_restored_by_its_name(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store)
    write(api, tmp_path)
    (outlet := tmp_path / "a").write_text("off\n")
    assert run(tmp_path, "power", "state", "worker-1") == (0, "off\n")
    assert run(tmp_path, "power", "restore", "worker-1")[0] == 0
    assert outlet.read_text() == "on\n"
    code, said = run(tmp_path, "power", "restore", "orders")
    assert code == 2 and "has no switch of its own" in said
    code, said = run(tmp_path, "power", "cut", "worker-1")
    assert code == 2 and "dbcheck_target is missing" in said
    assert api.asked == []


def test_rights_are_listed_without_asking_kubernetes(
    api: StandInApi, tmp_path: Path
) -> None:
    cluster(api, tmp_path)
    code, said = run(tmp_path, "grants", "orders")
    assert code == 0 and "pg_monitor" in said
    assert api.asked == []


def test_databases_on_one_node_are_not_cut_at_once(
    api: StandInApi, tmp_path: Path
) -> None:
    """Each cut would hit the other's load as well."""
    put_database(api.store)
    put_database(api.store, name="billing")
    path = write(api, tmp_path)
    orders = path.read_text().partition("    orders:\n")[2].partition("\n  children")[0]
    more = f"    billing:\n{orders}".replace("orders.prod", "billing.prod")
    more = more.replace("acks", "more")
    path.write_text(path.read_text().replace("    orders:\n", f"{more}    orders:\n"))
    code, said = run(tmp_path, "campaign", "orders", "billing", "--cuts", "1")
    assert code == 2 and "orders and billing are on worker-1" in said
    assert run(tmp_path, "campaign", "--all", "--cuts", "1")[0] == 2


def test_a_node_that_two_hosts_claim_is_refused(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store)
    path = write(api, tmp_path)
    claims = "dbcheck_kubernetes_node: worker-1"
    path.write_text(path.read_text().replace(f"{claims[:-1]}2", claims))
    with refused(ErrorId.HOSTS_SHARE_VALUE, naming=("worker-1", "second")):
        place(path)


def test_a_switch_of_a_target_that_is_wrong_is_refused(
    api: StandInApi, tmp_path: Path
) -> None:
    """What is wrong with db1 does not make its power another one."""
    put_database(api.store)
    path = write(api, tmp_path)
    wrong = (
        "    db1:\n      dbcheck_target: nonsense\n      dbcheck_power: exec\n"
        f'      dbcheck_power_state: [cat, "{tmp_path}/a"]\n'
        "      dbcheck_power_cut: [cut, a]\n"
        f'      dbcheck_power_restore: [sh, -c, \'echo on > "$0"\', "{tmp_path}/a"]\n'
        "      dbcheck_power_off_s: 1\n"
    )
    path.write_text(path.read_text().replace("    orders:\n", f"{wrong}    orders:\n"))
    with refused(ErrorId.HOSTS_SHARE_VALUE, naming=("worker-1", "db1")):
        place(path)


def test_a_host_must_be_the_node_whatever_else_it_must_show(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store, ["worker-2"])
    assert place(write(api, tmp_path)).expected == Expected(
        serial="ABC", machine_id="machine-of-worker-2"
    )


def test_who_cuts_by_hand_is_told_the_node(
    api: StandInApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No plug has the name of a pod."""
    path = cluster(api, tmp_path)
    by_hand = path.read_text().replace("dbcheck_power: exec", "dbcheck_power: manual")
    path.write_text(re.sub(r"\n +dbcheck_power_(state|cut|restore):.*", "", by_hand))
    for clusters in (False, True):
        entry = place(path, clusters=clusters)
        with (
            make_progress(Console(stderr=True), live=False) as view,
            assemble.open_entry_witness(entry, WindowLimits()) as witness,
        ):
            rig = assemble.make_rig(entry, witness, view, tmp_path, WindowLimits())
            rig.site.writer.power.cut()
        assert "second: Cut the power" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("topology", [True, False])
@pytest.mark.parametrize("in_pods", [True, False])
def test_a_run_of_a_cluster_is_judged_with_that_cluster(
    api: StandInApi, tmp_path: Path, topology: bool, in_pods: bool
) -> None:
    path = cluster(api, tmp_path) if topology else write(api, tmp_path)
    put_database(api.store, ["worker-1", "worker-2", "worker-3"], ROLES)
    run = manifest()
    pods = [
        replace(POD, name=f"orders-{number}", node=f"worker-{number + 1}")
        for number in range(3)
    ]
    run = replace(
        run,
        site=SiteKind.STREAMING,
        promise=Promise.WRITER_GONE,
        nodes={
            pod.name: replace(run.writer, pod=pod if in_pods else None) for pod in pods
        },
        writer_name="orders-1",
    )
    entry = load_inventory(path).entry("orders")
    if topology and in_pods:
        writer = place_as_run(entry, run, is_own=False)
        assert [writer.machine, *(each.machine for each in writer.standbys)] == [
            *("second", "worker-1", "worker-3")
        ]
        return
    with refused(ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming="orders"):
        place_as_run(entry, run, is_own=False)


def test_a_campaign_goes_on_once_the_node_that_it_cut_has_power(
    api: StandInApi, tmp_path: Path
) -> None:
    """The pod may have moved, and only its node of now has a switch here."""
    put_database(api.store)
    path = write(api, tmp_path)
    entry = place(path)
    stored = manifest()
    cut_one = replace(
        stored, nodes=one(replace(stored.writer, pod=replace(POD, node="worker-1")))
    )
    run = RunFolder.create(tmp_path / "runs", cut_one)
    run.write_cut_asked(CutAsked(1))
    folder: Any = SimpleNamespace(
        path=tmp_path,
        runs=tmp_path / "runs",
        plan=lambda: entry,
        list_runs_without_cycle=lambda: [run],
    )
    campaign_run.require_node_of_runs(entry, folder)
    api.store.move_pod("orders-0", "worker-2", NAMESPACE)
    with refused(
        ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming=("worker-1", "orders")
    ) as error:
        campaign_run.require_node_of_runs(place(path), folder)
    assert "dbcheck power restore worker-1" in error.value.hint


def test_the_password_goes_to_the_address_of_a_pod_alone(
    api: StandInApi, tmp_path: Path
) -> None:
    path = cluster(api, tmp_path)
    stranger = {"podIPs": [{"ip": "db.example.net/x?host=db.example.net"}]}
    api.store.change("Pod", "orders-1", {"status": stranger}, NAMESPACE)
    with refused(ErrorId.POD_NOT_READY, naming="no address yet"):
        place(path, clusters=True)
    api.store.change(
        "Pod", "orders-1", {"status": {"podIPs": [{"ip": "fd00::1"}]}}, NAMESPACE
    )
    own = "postgresql+psycopg2://dbcheck@orders.prod.svc/app"
    local = "mysql+mysqlconnector://dbcheck@orders.prod.svc/app?unix_socket=/run/s"
    path.write_text(path.read_text().replace(own, local))
    assert place(path, clusters=True).target == (
        "mysql+mysqlconnector://dbcheck@[fd00::1]/app"
    )


def test_a_host_of_a_cluster_is_in_no_pod(api: StandInApi, tmp_path: Path) -> None:
    """It would have no node, and a person would be asked to cut the pod's power."""
    put_database(api.store)
    path = write(api, tmp_path)
    keys = f"{{kubeconfig: {tmp_path}/kubeconfig, namespace: prod, selector: app=x}}"
    path.write_text(
        f"{path.read_text()}    both:\n"
        "      vars: {dbcheck_topology: streaming, dbcheck_writer: db1,"
        " dbcheck_survives: all, dbcheck_promoted_by: auto}\n"
        "      hosts:\n        db1: {dbcheck_target: 'postgresql://u@db1/d'}\n"
        "        db2: {dbcheck_target: 'postgresql://u@db2/d',"
        f" dbcheck_kubernetes: {keys}}}\n"
    )
    inventory = load_inventory(path)
    with refused(ErrorId.CLUSTER_VARIABLES_DIFFER, UsageError, naming="db2"):
        place_entry(inventory, inventory.cluster("both"), clusters=True)
