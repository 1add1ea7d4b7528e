"""The manifests of container/kubernetes, applied to a real Kubernetes of one node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dbcheck
from dbcheck.base.processes import make_module_command
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS, USAGE
from dbcheck.remote.same_host import read_boot_id
from tests.kit.kubernetes.clusters import MARKS, cluster_in
from tests.kit.kubernetes.site import (
    MANIFESTS,
    POWER,
    SCHEDULED,
    Site,
    apply,
    build_images,
    make_site,
    site_in,
)
from tests.kit.podman import ROOT, shown
from tests.kit.waiting import wait_until
from tools.kubernetes.run import ClusterError
from tools.kubernetes.state import Cluster

pytestmark = [*MARKS, pytest.mark.timeout(1200)]
ROLE = ROOT / "docs" / "guides" / "kubernetes" / "role.yaml"
LABEL = "cnpg.io/cluster=orders"
# As OpenShift has one for each namespace, without an entry in any image.
ANY_USER = 1000650000


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    folder = tmp_path_factory.mktemp("images")
    return build_images(folder, tmp_path_factory.mktemp("podman"))


@pytest.fixture(scope="module")
def cluster(
    archives: Sequence[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubernetes") / "cluster"
    with cluster_in(folder) as made:
        (node,) = made.nodes
        for archive in archives:
            node.ctr("images", "import", str(archive))
        yield made


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Give a site with a database, its volumes, its Secrets, and nothing of dbcheck."""
    with site_in(cluster, tmp_path_factory.mktemp("site").resolve()) as made:
        yield made


@pytest.fixture(scope="module")
def applied(site: Site) -> Site:
    """Give the site once the manifests are applied, and the witness runs."""
    apply(site)
    return site


def test_the_api_server_takes_each_manifest_as_it_is(site: Site) -> None:
    """Also as one of the restricted profile of the Pod Security Standards."""
    strict = ("--dry-run=server", "--validate=strict", "--warnings-as-errors")
    said = site.kubectl("apply", *strict, "-k", str(MANIFESTS))
    assert "cronjob.batch/dbcheck created (server dry run)" in said
    site.kubectl("create", *strict, "-f", str(MANIFESTS / "job.yaml"))
    site.kubectl("apply", "-f", str(MANIFESTS / "data.yaml"))
    site.kubectl("create", *strict, "-f", str(MANIFESTS / "shell.yaml"))
    site.kubectl("delete", "-f", str(MANIFESTS / "data.yaml"))
    for file in sorted(MANIFESTS.glob("*.yaml")):
        text = file.read_text().replace("drop: [ALL]", "drop: []")
        if file.name in ("witness.yaml", "job.yaml", "cronjob.yaml"):
            with pytest.raises(ClusterError, match="would violate PodSecurity"):
                site.kubectl("create", *strict, "-f", "-", text=text)


def test_nothing_starts_on_a_node_of_the_database(site: Site) -> None:
    """There is one node, so that all waits until the database has left it."""
    site.cluster.kubectl("label", "-n", "prod", "pod/orders-1", LABEL)
    site.kubectl("apply", "-k", str(site.folder / "manifests"))
    job = site.kubectl(
        "create", "-f", str(site.folder / "manifests/job.yaml"), "-o", "name"
    ).strip()
    try:
        for label in (
            f"batch.kubernetes.io/job-name={job.partition('/')[2]}",
            "app.kubernetes.io/name=dbcheck-witness",
        ):
            wait_until(partial(is_kept_off, site, label), f"{label} is kept off")
    finally:
        site.kubectl("delete", job)
        site.cluster.kubectl("label", "-n", "prod", "pod/orders-1", "cnpg.io/cluster-")


def on(name: str) -> tuple[str, ...]:
    """Name a target of write_inventory()."""
    return (name, "--inventory", f"/data/{name}.yml")


def is_kept_off(site: Site, label: str) -> bool:
    return any(
        "didn't match pod anti-affinity rules" in condition.get("message", "")
        for pod in site.show("pods", "-l", label)["items"]
        for condition in pod["status"].get("conditions", ())
    )


def test_what_cuts_nothing_works_in_a_job(applied: Site) -> None:
    code, said = applied.run("--version")
    assert (code, said.strip()) == (PASS, f"dbcheck, version {dbcheck.__version__}")
    code, said = applied.run("witness", "check", "orders")
    assert code == PASS, said
    assert "dbcheck-witness-0 can be used as a witness" in said
    assert "/home/witness/acks/orders" in said
    boot = "/proc/sys/kernel/random/boot_id"
    said = applied.kubectl("exec", "dbcheck-witness-0", "--", "cat", boot)
    assert said.strip() == read_boot_id()  # by which one host is recognised
    code, said = applied.run("audit", *on("by-hand"))
    assert code == PASS, said
    assert "PostgreSQL" in said


def test_the_monthly_check_can_be_run_at_once(applied: Site) -> None:
    """As the guide does; it is suspended, and has begun nothing by itself."""
    made = ("job", "once", "--from=cronjob/dbcheck", "--dry-run=server", "-o", "json")
    job = json.loads(applied.kubectl("create", *made))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["campaign", "orders", "--cuts", "5"]
    assert container["image"] == "registry.example.net/dbcheck:1"
    assert applied.show("cronjob/dbcheck")["status"] == {}


@pytest.mark.parametrize(
    ("name", "said_id"),
    [
        ("switched", "host-is-this-machine"),
        ("by-hand", "witness-on-target"),
        ("own-disk", "witness-on-target"),
    ],
)
def test_a_cut_of_the_node_that_has_witness_and_client_is_refused(
    applied: Site, name: str, said_id: str
) -> None:
    """Each pod has addresses of its own; the kernel's boot id is that of the node."""
    job_code, said = applied.run("run", *on(name), "--yes", "--i-know")
    assert job_code == USAGE, said
    assert f"[{said_id}]" in said
    assert not (applied.data / "outlet").exists()
    assert not (applied.top / "database" / "off").exists()


def test_the_account_of_the_job_finds_the_database_by_the_api(applied: Site) -> None:
    """With the Roles of the guide, and without them not."""
    code, said = applied.run("audit", *on("in-pod"))
    assert code == FAILED, said
    assert "[kubernetes-refused]" in said
    applied.cluster.kubectl("apply", "-f", str(ROLE))
    code, said = applied.run("audit", *on("in-pod"))
    assert code == PASS, said
    assert "pod prod/orders-1" in said
    code, said = applied.run("run", *on("in-pod"), "--yes", "--i-know")
    assert code == USAGE, said
    assert "[host-is-this-machine]" in said
    code, said = applied.run("run", *on("in-pod-by-hand"), "--i-know")
    assert code == USAGE, said
    assert "log is in pod dbcheck/dbcheck-witness-0, on the node dbcheck" in said
    assert not (applied.data / "outlet").exists()


def flags_of(site: Site) -> tuple[str, ...]:
    """Name the target without its host, and the witness."""
    target = f"postgresql+psycopg2://dbcheck@{site.database}/postgres"
    witness = "ssh://witness@dbcheck-witness:2222/~/acks/flags"
    return ("--target", target, "--witness", witness, *POWER, "--yes", "--i-know")


def test_a_run_leaves_its_folder_and_its_bundle_can_be_taken_out(
    applied: Site, tmp_path: Path
) -> None:
    """A host without power would close no connections: that cut does not count."""
    code, said = applied.run("run", *flags_of(applied), "--off-seconds", "1")
    assert code == INCONCLUSIVE, said
    assert "its connections were closed at once" in " ".join(said.split())
    assert (applied.data / "restored").exists()
    (run,) = (applied.data / "runs").iterdir()
    with applied.shell():
        applied.call("dbcheck", "bundle", f"runs/{run.name}", "-o", "/tmp/run.tar")
        taken = tmp_path / "run.tar"
        applied.kubectl("cp", "dbcheck/dbcheck-shell:/tmp/run.tar", str(taken))
        text = applied.call("dbcheck", "report", f"runs/{run.name}")
        assert "curl" in applied.call("curl", "--version")  # as a switch may need it
    assert "INCONCLUSIVE" in text
    verify = make_module_command("dbcheck", "verify", str(taken))
    said = shown(subprocess.run(verify, capture_output=True, text=True))
    assert "nothing that was checked differs" in said
    shutil.rmtree(run)


def test_a_run_that_is_ended_gives_the_power_back_and_is_not_repeated(
    applied: Site,
) -> None:
    """A drain has to wait for it; what deletes the pod anyway, dbcheck survives."""
    data = applied.data
    (data / "restored").unlink(missing_ok=True)
    job = applied.start("run", *flags_of(applied), "--off-seconds", "600")
    wait_until(
        lambda: (data / "outlet").exists() and (data / "outlet").read_text() == "off\n",
        "the power is off",
        120,
    )
    (pod,) = applied.pods_of(job)
    name = pod["metadata"]["name"]
    place = f"/api/v1/namespaces/dbcheck/pods/{name}/eviction"
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "dbcheck"},
    }
    with pytest.raises(ClusterError, match="disruption budget"):
        applied.kubectl("create", "--raw", place, "-f", "-", text=json.dumps(eviction))
    applied.kubectl("delete", f"pod/{name}", "--wait=false")
    wait_until(lambda: applied.has_ended(job), f"{job} ends", 120)
    assert (data / "restored").exists()
    assert (data / "outlet").read_text() == "on\n"
    why = applied.conditions_of(job)["Failed"]
    assert re.search(f"exit code {FAILED}\\b", why), why
    assert applied.show(job)["status"]["failed"] == 1
    assert {pod["metadata"]["name"] for pod in applied.pods_of(job)} <= {name}
    wait_until(lambda: not applied.pods_of(job), "its pod is gone, and no other came")
    (run,) = (data / "runs").iterdir()
    code, said = applied.run("run", *flags_of(applied))
    assert code == USAGE, said
    assert run.name in said
    with applied.shell():
        with pytest.raises(ClusterError, match="status [13]"):
            applied.call("dbcheck", "reconcile", f"runs/{run.name}")
        assert "verdict.json" in applied.call("ls", f"runs/{run.name}")


def take_suspend_off(site: Site) -> dict[str, Any]:
    """Do so as the guide does; return the Job that the CronJob then makes."""
    before = len(site.list_checks())
    site.kubectl("patch", "cronjob/dbcheck", "-p", '{"spec":{"suspend":false}}')
    wait_until(lambda: len(site.list_checks()) > before, "the CronJob makes a Job", 90)
    return site.list_checks()[-1]


def suspend(site: Site) -> None:
    site.kubectl("patch", "cronjob/dbcheck", "-p", '{"spec":{"suspend":true}}')


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), USAGE), (("witness", "check", "orders"), PASS)],
    ids=["refused", "complete"],
)
def test_a_check_begins_by_its_schedule(
    applied: Site, words: Sequence[str], expected: int
) -> None:
    """As it is in the manifest it is refused here; each verdict shows in the Job.

    Only after a PASS a time of success is there, which the guide has alerts on.
    """
    applied.schedule(*words)
    try:
        job = take_suspend_off(applied)["metadata"]["name"]
    finally:
        suspend(applied)
    assert applied.await_end(f"job/{job}") == expected
    said = applied.kubectl("logs", f"job/{job}")
    assert ("[terminal-needed]" in said) == (expected == USAGE), said
    status = applied.show("cronjob/dbcheck")["status"]
    assert status["lastScheduleTime"]
    assert ("lastSuccessfulTime" in status) == (expected == PASS)


def test_no_check_begins_beside_another_one(applied: Site) -> None:
    """The CronJob's next minute comes while the power is off."""
    data = applied.data
    cuts, earlier = count_cuts(applied), set((data / "runs").iterdir())
    applied.schedule("run", *flags_of(applied), "--off-seconds", "90")
    try:
        job = take_suspend_off(applied)["metadata"]["name"]
        wait_until(lambda: count_cuts(applied) > cuts, "the power is cut", 120)
        wait_until(lambda: was_held_back(applied), "the next check is held back", 150)
        assert (data / "outlet").read_text() == "off\n"
        assert applied.list_checks()[-1]["metadata"]["name"] == job
    finally:
        suspend(applied)
    assert applied.await_end(f"job/{job}", 300) == INCONCLUSIVE
    assert count_cuts(applied) == cuts + 1
    assert applied.list_checks()[-1]["metadata"]["name"] == job
    (run,) = set((data / "runs").iterdir()) - earlier
    with applied.shell():
        assert "INCONCLUSIVE" in applied.call("dbcheck", "report", f"runs/{run.name}")
    shutil.rmtree(run)


def was_held_back(site: Site) -> bool:
    of_check = "involvedObject.name=dbcheck,reason=JobAlreadyActive"
    return bool(site.show("events", "--field-selector", of_check)["items"])


def count_cuts(site: Site) -> int:
    cuts = site.data / "cuts"
    return len(cuts.read_text().splitlines()) if cuts.exists() else 0


def test_a_check_that_finds_a_loss_is_a_failed_job_and_cuts_once(
    applied: Site,
) -> None:
    """A check of before is made up for as soon as none is suspended any more.

    Its target's host shows other ids than this machine, which would not be cut.
    """
    lose_commits(applied, now=True)
    cuts = count_cuts(applied)
    words = ("campaign", *on("far"), "--cuts", "5", "--yes", "--i-know")
    applied.schedule(*words)
    wait_until(lambda: was_missed(applied), "a check is missed", 90)
    begun = datetime.now(UTC)
    try:
        job = take_suspend_off(applied)
    finally:
        suspend(applied)
    planned = job["metadata"]["annotations"][SCHEDULED]
    assert parse_time(planned) < begun
    name = f"job/{job['metadata']['name']}"
    assert applied.await_end(name) == FAIL
    lose_commits(applied, now=False)
    why = applied.conditions_of(name)["Failed"]
    assert f"exit code {FAIL} matching FailJob rule" in why
    assert applied.show(name)["status"]["failed"] == 1
    assert len(applied.pods_of(name)) == 1
    assert count_cuts(applied) == cuts + 1
    assert "the server lost" in " ".join(applied.kubectl("logs", name).split())
    (campaign,) = (applied.data / "campaigns").iterdir()
    with applied.shell():
        report = ("dbcheck", "report", f"campaigns/{campaign.name}")
        assert "FAIL in cycle 1" in applied.call(*report)
        numbers = applied.call(*report, "--format", "prometheus")
    assert 'verdict="FAIL"} 1.0' in numbers, numbers


def was_missed(site: Site) -> bool:
    """Return True once a minute has begun in which a check was due."""
    check = site.show("cronjob/dbcheck")
    created = check["metadata"]["creationTimestamp"]
    last = parse_time(check["status"].get("lastScheduleTime", created))
    return datetime.now(UTC) > last.replace(second=0) + timedelta(minutes=1, seconds=1)


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def lose_commits(site: Site, *, now: bool) -> None:
    """Have the server keep in its memory what it acknowledges, or no longer.

    What ends that is its next start, with the writer of its log.
    """
    inside = ("exec", "-n", "prod", "orders-1", "--")
    value = "off" if now else "on"
    for text in (
        f"alter system set synchronous_commit={value}",
        "select pg_reload_conf()",
    ):
        psql = ("psql", "-h", "127.0.0.1", "-U", "dbcheck", "postgres", "-c", text)
        site.cluster.kubectl(*inside, *psql)
    if now:
        site.cluster.kubectl(*inside, "pkill", "-STOP", "-f", "walwriter")


@pytest.fixture(scope="module", params=[ANY_USER, 0], ids=["own-group", "group-0"])
def of_any_user(applied: Site, request: pytest.FixtureRequest) -> Site:
    """Give a site whose pods run as a user and a group that no image knows."""
    namespace = f"any-{request.param}"
    made = replace(applied, namespace=namespace, user=ANY_USER, group=request.param)
    make_site(made)
    apply(made)
    return made


def test_any_user_can_be_that_of_the_pods(of_any_user: Site) -> None:
    """As the restricted profile has it, where OpenShift chooses the user."""
    ids = f"{ANY_USER} {of_any_user.group}"
    shown_ids = ("sh", "-c", "echo $(id -u) $(id -g)")
    said = of_any_user.kubectl("exec", "dbcheck-witness-0", "--", *shown_ids)
    assert said.strip() == ids
    code, said = of_any_user.run("witness", "check", "orders")
    assert code == PASS, said
    code, said = of_any_user.run("audit", *on("by-hand"))
    assert code == PASS, said
    code, said = of_any_user.run("run", *flags_of(of_any_user), "--off-seconds", "1")
    assert code == INCONCLUSIVE, said
    assert "its connections were closed at once" in " ".join(said.split())
    (run,) = (of_any_user.data / "runs").iterdir()
    with of_any_user.shell():
        assert of_any_user.call(*shown_ids).strip() == ids
        of_any_user.call("dbcheck", "bundle", f"runs/{run.name}", "-o", "/tmp/run.tar")
        said = of_any_user.call("dbcheck", "verify", "/tmp/run.tar")
    assert "nothing that was checked differs" in said
