"""The manifests of container/kubernetes, applied to a real Kubernetes of one node.

The images are those of container/, built by podman.  There is one machine, so that a
cut of the node is refused; what is cut here is the server's process, of a target whose
host nobody named.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

import dbcheck
from dbcheck.base.processes import make_module_command
from dbcheck.cli import FAILED, INCONCLUSIVE, PASS, USAGE
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.remote.same_host import read_boot_id
from tests.kit.kubernetes.clusters import MARKS, cluster_in
from tests.kit.podman import CONTAINER, ROOT, podman_in, shown
from tests.kit.waiting import wait_until
from tools.kubernetes import images
from tools.kubernetes.machine import Traces
from tools.kubernetes.run import ClusterError
from tools.kubernetes.state import NAME, Cluster

pytestmark = [*MARKS, pytest.mark.timeout(1200)]
MANIFESTS = CONTAINER / "kubernetes"
USER = 1000  # of both images
WAIT = "--timeout=120s"
ROLE = ROOT / "docs" / "guides" / "kubernetes" / "role.yaml"
LABEL = "cnpg.io/cluster=orders"
# A volume for each claim, of the class that the manifests name, and a database.
CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata:
  name: dbcheck
  labels: {pod-security.kubernetes.io/enforce: restricted}
---
apiVersion: v1
kind: Namespace
metadata: {name: prod}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-path}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""
VOLUME = """\
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: $name}
spec:
  capacity: {storage: $size}
  accessModes: [ReadWriteOnce]
  storageClassName: local-path
  local: {path: $folder}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions:
            - {key: kubernetes.io/hostname, operator: In, values: [$node]}
"""
DATABASE = """\
apiVersion: v1
kind: Pod
metadata: {name: orders-1, namespace: prod, labels: {app: orders}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
    - name: postgres
      image: $image
      imagePullPolicy: Never
      command: ["/bin/sh", "-euc"]
      args:
        - |
          while [ -e $folder/off ]; do sleep 0.1; done
          PATH=$$(echo /usr/lib/postgresql/*/bin):/usr/sbin:/usr/bin:/sbin:/bin
          data=$folder/pgdata
          as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$$@"; }
          install -d -o postgres -m 700 "$$data"
          if ! [ -e "$$data/PG_VERSION" ]; then
            as initdb -D "$$data" -U dbcheck -A trust >/dev/null
            echo host all all all trust >>"$$data/pg_hba.conf"
          fi
          exec setpriv --reuid=postgres --regid=postgres --clear-groups \\
            postgres -D "$$data" -c 'listen_addresses=*' -c unix_socket_directories=
      readinessProbe:
        exec:
          command:
            - /bin/sh
            - -c
            - $$(echo /usr/lib/postgresql/*/bin)/pg_isready -h 127.0.0.1
        periodSeconds: 1
      volumeMounts:
        - {name: usr, mountPath: /usr, readOnly: true}
        - {name: etc, mountPath: /etc, readOnly: true}
        - {name: data, mountPath: $folder}
  volumes:
    - {name: usr, hostPath: {path: /usr}}
    - {name: etc, hostPath: {path: /etc}}
    - {name: data, hostPath: {path: $folder}}
"""
# The switch of the tests: the node kills the server, which waits for its power.
SWITCH = """\
#!/bin/sh
set -eu
outlet=/data/outlet
node="ssh -o BatchMode=yes -p $port root@$address"
case $$1 in
state) cat $$outlet 2>/dev/null || echo on ;;
cut) $$node 'touch $folder/off; pkill -KILL -f [p]ostgres.-D.$folder/pgdata'
    echo off >$$outlet ;;
restore) $$node 'rm $folder/off'
    echo on >$$outlet
    echo >>/data/restored ;;
esac
"""
POWER = (
    *("--power", "exec", "--state-command", "/data/switch state"),
    *("--cut-command", "/data/switch cut"),
    *("--restore-command", "/data/switch restore"),
)


class NodeSshd(Sshd):
    """The node's SSH server, at the address that its pods reach."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self.host = address

    def _command(self) -> list[str]:
        command = super()._command()
        config = Path(command[-1])
        config.write_text(config.read_text().replace("127.0.0.1", self.host))
        return command


@dataclass(frozen=True)
class Site:
    """A cluster with a database, to which the manifests are applied.

    folder: has a copy of the manifests with an inventory, and the volumes.
    """

    cluster: Cluster
    folder: Path
    sshd: NodeSshd

    def kubectl(self, *words: str, text: str = "", timeout_s: float = 150) -> str:
        words = ("-n", "dbcheck", *words)
        return self.cluster.kubectl(*words, text=text, timeout_s=timeout_s)

    def show(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    @property
    def database(self) -> str:
        shown = self.cluster.kubectl("get", "-n", "prod", "pod/orders-1", "-o", "json")
        return str(json.loads(shown)["status"]["podIP"])

    def read_manifest(self, name: str) -> dict[str, Any]:
        """Return a manifest that finds the witness and the API.

        Neither DNS nor kube-proxy runs here, which would find both.
        """
        found: dict[str, Any] = yaml.safe_load(
            (self.folder / "manifests" / name).read_text()
        )
        address = self.show("pod/dbcheck-witness-0")["status"]["podIP"]
        spec = found["spec"]
        spec = spec["template"]["spec"] if found["kind"] == "Job" else spec
        spec["hostAliases"] = [{"ip": address, "hostnames": ["dbcheck-witness"]}]
        spec["containers"][0]["env"] += [
            {"name": "KUBERNETES_SERVICE_HOST", "value": self.api.hostname},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(self.api.port)},
        ]
        return found

    @property
    def api(self) -> SplitResult:
        """The address of the API server."""
        config = yaml.safe_load(self.cluster.kubeconfig.read_text())
        return urlsplit(str(config["clusters"][0]["cluster"]["server"]))

    def start(self, *words: str) -> str:
        """Start job.yaml with other words; return the Job's name."""
        job = self.read_manifest("job.yaml")
        job["spec"]["template"]["spec"]["containers"][0]["args"] = list(words)
        made = self.kubectl("create", "-f", "-", "-o", "name", text=json.dumps(job))
        return made.strip()

    def pods_of(self, job: str) -> list[dict[str, Any]]:
        selector = f"batch.kubernetes.io/job-name={job.partition('/')[2]}"
        return list(self.show("pods", "-l", selector)["items"])

    def run(self, *words: str) -> tuple[int, str]:
        """Run a Job to its end; return the exit code, and all that was printed."""
        job = self.start(*words)
        wait_until(lambda: self.has_ended(job), f"{job} ends", 180)
        (pod,) = self.pods_of(job)
        (container,) = pod["status"]["containerStatuses"]
        code = int(container["state"]["terminated"]["exitCode"])
        assert ("Failed" in self.conditions_of(job)) == (code != PASS)
        return code, self.kubectl("logs", job)

    def has_ended(self, job: str) -> bool:
        return bool({"Complete", "Failed"} & self.conditions_of(job).keys())

    def conditions_of(self, job: str) -> Mapping[str, str]:
        """Return what is true of a Job: its types and messages."""
        return {
            one["type"]: one.get("message", "")
            for one in self.show(job)["status"].get("conditions", ())
            if one["status"] == "True"
        }

    @contextlib.contextmanager
    def shell(self) -> Iterator[None]:
        """Have the pod of shell.yaml while the block runs."""
        manifest = json.dumps(self.read_manifest("shell.yaml"))
        self.kubectl("create", "-f", "-", text=manifest)
        try:
            self.kubectl("wait", "--for=condition=Ready", "pod/dbcheck-shell", WAIT)
            yield
        finally:
            self.kubectl("delete", "pod/dbcheck-shell")

    def call(self, *words: str) -> str:
        return self.kubectl("exec", "dbcheck-shell", "--", *words)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """Return archives of both images, with the names that the manifests give."""
    folder = tmp_path_factory.mktemp("images")
    made = []
    with podman_in(tmp_path_factory.mktemp("podman")) as podman:
        for name, file, *arguments in (
            ("dbcheck", "Dockerfile", "PACKAGES=kubernetes", "PROGRAMS=curl"),
            ("dbcheck-witness", "Dockerfile.witness"),
        ):
            tag = f"registry.example.net/{name}:1"
            with_arguments = [f"--build-arg={each}" for each in arguments]
            podman.build(tag, "-f", CONTAINER / file, *with_arguments, ".")
            made.append(folder / f"{name}.tar")
            podman.run("save", "--quiet", "--output", made[-1], tag)
    return made


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
    folder = tmp_path_factory.mktemp("site").resolve()
    sshd = NodeSshd(folder / "sshd", Traces.of(cluster).address)
    sshd.start()
    made = Site(cluster, folder, sshd)
    try:
        text = CLUSTER
        for name, size in (("acks", "10Gi"), ("data", "20Gi")):
            (folder / name).mkdir()
            text += Template(VOLUME).substitute(
                name=name, size=size, folder=folder / name, node=NAME
            )
        made.cluster.kubectl("apply", "-f", "-", text=text)
        (folder / "database").mkdir()
        text = Template(DATABASE).substitute(
            folder=folder / "database", image=images.EMPTY
        )
        made.cluster.kubectl("apply", "-f", "-", text=text)
        ready = ("wait", "-n", "prod", "--for=condition=Ready", "pod/orders-1", WAIT)
        made.cluster.kubectl(*ready, timeout_s=150)
        make_secrets(made)
        write_inventory(made)
        make_switch(made)
        yield made
    finally:
        sshd.close()


def make_secrets(site: Site) -> None:
    """Make the Secrets, one key for the witness and the node, as the guide shows."""
    folder, key = site.folder, site.sshd.identity_file
    key.with_suffix(".pub").write_text(
        (folder / "sshd" / "authorized_keys").read_text()
    )
    shown(
        subprocess.run(
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host"),
            capture_output=True,
            text=True,
        )
    )
    (folder / "password").write_text("correct horse\n")
    secret = ("create", "secret", "generic")
    site.kubectl(
        *(*secret, "dbcheck-witness"),
        f"--from-file=ssh_host_ed25519_key={folder}/host",
        f"--from-file=authorized_keys={key.with_suffix('.pub')}",
    )
    site.kubectl(
        *(*secret, "dbcheck"),
        f"--from-file=id_ed25519={key}",
        f"--from-file={folder}/password",
    )


def write_inventory(site: Site) -> None:
    """Copy the manifests, with an inventory of targets on the one node."""
    folder = site.folder / "manifests"
    shutil.copytree(MANIFESTS, folder)
    on_node = {
        "ansible_host": site.sshd.host,
        "ansible_port": site.sshd.port,
        "ansible_user": site.sshd.user,
    }
    switch = {
        "dbcheck_power": "exec",
        "dbcheck_power_state": ["/data/switch", "state"],
        "dbcheck_power_cut": ["/data/switch", "cut"],
        "dbcheck_power_restore": ["/data/switch", "restore"],
    }
    hosts: dict[str, dict[str, Any]] = {
        "orders": {"dbcheck_ask_host": False},
        "switched": {**on_node, **switch},
        "by-hand": on_node,
        "own-disk": {**on_node, "dbcheck_witness": "file:/data/acks"},
    }
    shown = yaml.safe_load((folder / "inventory.yml").read_text())["all"]["vars"]
    target = f"postgresql+psycopg2://dbcheck@{site.database}/postgres"
    pods = {"namespace": "prod", "selector": "app=orders"}
    by_api = {**shown, "dbcheck_target": target, "dbcheck_kubernetes": pods}
    every = {k: v for k, v in by_api.items() if "kubernetes" not in k}
    inventories = {
        "in-pod": {
            "hosts": {"in-pod": by_api},
            "children": {"nodes": {"hosts": {NAME: {**on_node, **switch}}}},
        },
        "in-pod-by-hand": {
            "hosts": {"in-pod-by-hand": by_api},
            "children": {"nodes": {"hosts": {NAME: on_node}}},
        },
        **{
            name: {"vars": every, "hosts": {name: values}}
            for name, values in hosts.items()
        },
    }
    for name, of_all in inventories.items():  # one each, as all are the same target
        place = site.folder / "data" / f"{name}.yml"
        inventory = {"all": of_all}
        place.write_text(yaml.safe_dump(inventory))
        os.chown(place, USER, USER)
    shutil.copy(site.folder / "data" / "orders.yml", folder / "inventory.yml")
    key = " ".join((site.folder / "host.pub").read_text().split()[:2])
    node = site.sshd.known_hosts.read_text()
    (folder / "known_hosts").write_text(f"[dbcheck-witness]:2222 {key}\n{node}")


def make_switch(site: Site) -> None:
    switch = site.folder / "data" / "switch"
    switch.write_text(
        Template(SWITCH).substitute(
            port=site.sshd.port,
            address=site.sshd.host,
            folder=site.folder / "database",
        )
    )
    switch.chmod(0o700)
    os.chown(switch, USER, USER)


@pytest.fixture(scope="module")
def applied(site: Site) -> Site:
    """Give the site once the manifests are applied, and the witness runs."""
    site.kubectl("apply", "-k", str(site.folder / "manifests"))
    ready = ("wait", "--for=condition=Ready", "pod/dbcheck-witness-0", WAIT)
    wait_until(lambda: bool(site.show("pods")["items"]), "the witness's pod is made")
    site.kubectl(*ready)
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
    assert not (applied.folder / "data" / "outlet").exists()
    assert not (applied.folder / "database" / "off").exists()


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
    assert not (applied.folder / "data" / "outlet").exists()


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
    assert (applied.folder / "data" / "restored").exists()
    (run,) = (applied.folder / "data" / "runs").iterdir()
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
    data = applied.folder / "data"
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
