"""Sites of container/kubernetes: its manifests in a namespace of a real cluster.

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
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import SplitResult, urlsplit

import yaml  # type: ignore[import-untyped]

from dbcheck.cli import PASS
from dbcheck.lab.ssh.sshd import Sshd
from tests.kit.podman import CONTAINER, ROOT, podman_in, shown
from tests.kit.waiting import wait_until
from tools.kubernetes import images
from tools.kubernetes.machine import Traces
from tools.kubernetes.state import NAME, Cluster

MANIFESTS = CONTAINER / "kubernetes"
_GUIDE = ROOT / "docs" / "guides" / "in-cluster.md"
USER = 1000  # of both images
WAIT = "--timeout=120s"
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata: {name: prod}
"""
_NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: $name
  labels: {pod-security.kubernetes.io/enforce: restricted}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-$name}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""
_VOLUME = """\
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: $name}
spec:
  capacity: {storage: $size}
  accessModes: [ReadWriteOnce]
  storageClassName: local-$namespace
  local: {path: $folder}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions:
            - {key: kubernetes.io/hostname, operator: In, values: [$node]}
"""
_DATABASE = """\
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
_SWITCH = """\
#!/bin/sh
set -eu
outlet=/data/outlet
node="ssh -o BatchMode=yes -p $port root@$address"
case $$1 in
state) cat $$outlet 2>/dev/null || echo on ;;
cut) $$node 'touch $folder/off; pkill -KILL -f [p]ostgres.-D.$folder/pgdata'
    echo off >$$outlet
    echo >>/data/cuts ;;
restore) $$node 'cat /proc/sys/kernel/random/uuid >$boot; rm $folder/off'
    echo on >$$outlet
    echo >>/data/restored ;;
esac
"""
_LOGIN = """\
#!/bin/sh
exec unshare --mount --uts --time --boottime 5000000 --fork sh -c '
    mount --bind $boot /proc/sys/kernel/random/boot_id
    hostname far
    exec sh -c "$$SSH_ORIGINAL_COMMAND"
'
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


class FarSshd(NodeSshd):
    """An SSH server whose logins see another machine: its name, ids and start.

    boot: the file with that machine's boot id.
    """

    def __init__(self, folder: Path, address: str, boot: Path) -> None:
        super().__init__(folder, address)
        self.login = folder.with_name("login")
        boot.write_text("3e5b9c1e-5c0f-4d55-a3a5-3c1f0b8f8a55\n")
        self.login.write_text(Template(_LOGIN).substitute(boot=boot))
        self.login.chmod(0o755)

    def _command(self) -> list[str]:
        command = super()._command()
        with Path(command[-1]).open("a") as config:
            config.write(f"ForceCommand {self.login}\n")
        return command


@dataclass(frozen=True)
class Site:
    """A namespace of a cluster with a database, to which the manifests are applied.

    top: has what all sites of a cluster share, and a folder of each.
    """

    cluster: Cluster
    top: Path
    sshd: NodeSshd
    far: FarSshd
    namespace: str = "dbcheck"
    user: int = USER
    group: int = USER

    @property
    def folder(self) -> Path:
        """The folder with the manifests, with an inventory, and the volumes."""
        return self.top / self.namespace

    @property
    def data(self) -> Path:
        """The volume of the runs."""
        return self.folder / "data"

    def kubectl(self, *words: str, text: str = "", timeout_s: float = 150) -> str:
        words = ("-n", self.namespace, *words)
        return self.cluster.kubectl(*words, text=text, timeout_s=timeout_s)

    def show(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    @property
    def database(self) -> str:
        shown = self.cluster.kubectl("get", "-n", "prod", "pod/orders-1", "-o", "json")
        return str(json.loads(shown)["status"]["podIP"])

    def read_manifest(self, name: str) -> dict[str, Any]:
        """Return a manifest that finds the witness and the API."""
        found: dict[str, Any] = yaml.safe_load(
            (self.folder / "manifests" / name).read_text()
        )
        spec = found["spec"]
        self.complete(spec["template"]["spec"] if found["kind"] == "Job" else spec)
        return found

    def complete(self, pod: dict[str, Any]) -> None:
        """Have a pod find the witness and the API.

        Neither DNS nor kube-proxy runs here, which would find both.
        """
        address = self.show("pod/dbcheck-witness-0")["status"]["podIP"]
        pod["hostAliases"] = [{"ip": address, "hostnames": ["dbcheck-witness"]}]
        (container,) = pod["containers"]
        of_api = {
            "KUBERNETES_SERVICE_HOST": self.api.hostname,
            "KUBERNETES_SERVICE_PORT": str(self.api.port),
        }
        container["env"] = [
            *(one for one in container["env"] if one["name"] not in of_api),
            *({"name": name, "value": value} for name, value in of_api.items()),
        ]

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
        return self.await_end(job), self.kubectl("logs", job)

    def await_end(self, job: str, limit_s: float = 180) -> int:
        """Wait until a Job's only pod has ended; return the exit code."""
        wait_until(lambda: self.has_ended(job), f"{job} ends", limit_s)
        (pod,) = self.pods_of(job)
        (container,) = pod["status"]["containerStatuses"]
        code = int(container["state"]["terminated"]["exitCode"])
        assert ("Failed" in self.conditions_of(job)) == (code != PASS)
        return code

    def has_ended(self, job: str) -> bool:
        return bool({"Complete", "Failed"} & self.conditions_of(job).keys())

    def conditions_of(self, job: str) -> Mapping[str, str]:
        """Return what is true of a Job: its types and messages."""
        return {
            one["type"]: one.get("message", "")
            for one in self.show(job)["status"].get("conditions", ())
            if one["status"] == "True"
        }

    def schedule(self, *words: str) -> None:
        """Have the CronJob run each minute, with other words if there are any."""
        check = self.show("cronjob/dbcheck")
        check["spec"]["schedule"] = "* * * * *"
        pod = check["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        self.complete(pod)
        if words:
            pod["containers"][0]["args"] = list(words)
        self.kubectl("replace", "-f", "-", text=json.dumps(check))

    def list_checks(self) -> list[dict[str, Any]]:
        """Return the Jobs that the CronJob has made by itself, oldest first."""
        made = [
            job
            for job in self.show("jobs")["items"]
            if SCHEDULED in job["metadata"].get("annotations", {})
        ]
        return sorted(made, key=lambda job: job["metadata"]["creationTimestamp"])

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


def build_images(folder: Path, storage: Path) -> Sequence[Path]:
    """Return archives of both images, with the names that the manifests give.

    storage: a folder of podman's.
    """
    made = []
    with podman_in(storage) as podman:
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


@contextlib.contextmanager
def site_in(cluster: Cluster, top: Path) -> Iterator[Site]:
    """Give a site with a database, its volumes, its Secrets, and nothing of dbcheck."""
    address = Traces.of(cluster).address
    sshd = NodeSshd(top / "sshd", address)
    far = FarSshd(top / "far", address, top / "boot")
    try:
        sshd.start()
        far.start()
        shutil.copy(top / "sshd" / "authorized_keys", top / "far")
        cluster.kubectl("apply", "-f", "-", text=_CLUSTER)
        (top / "database").mkdir()
        database = {"folder": top / "database", "image": images.EMPTY}
        text = Template(_DATABASE).substitute(database)
        cluster.kubectl("apply", "-f", "-", text=text)
        ready = ("wait", "-n", "prod", "--for=condition=Ready", "pod/orders-1", WAIT)
        cluster.kubectl(*ready, timeout_s=150)
        made = Site(cluster, top, sshd, far)
        make_site(made)
        yield made
    finally:
        sshd.close()
        far.close()


def make_site(site: Site) -> None:
    """Make the namespace of a site with its volumes, Secrets, inventory and switch."""
    text = Template(_NAMESPACE).substitute(name=site.namespace)
    for name, size in (("acks", "10Gi"), ("data", "20Gi")):
        (site.folder / name).mkdir(parents=True)
        text += Template(_VOLUME).substitute(
            name=f"{site.namespace}-{name}",
            namespace=site.namespace,
            size=size,
            folder=site.folder / name,
            node=NAME,
        )
    site.cluster.kubectl("apply", "-f", "-", text=text)
    _make_secrets(site)
    _write_inventory(site)
    _make_switch(site)


def apply(site: Site) -> None:
    """Apply the manifests; return once the witness runs."""
    site.kubectl("apply", "-k", str(site.folder / "manifests"))
    ready = ("wait", "--for=condition=Ready", "pod/dbcheck-witness-0", WAIT)
    wait_until(lambda: bool(site.show("pods")["items"]), "the witness's pod is made")
    site.kubectl(*ready)


def _make_secrets(site: Site) -> None:
    """Make the Secrets, one key for the witness and the node, as the guide shows."""
    folder, key = site.folder, site.sshd.identity_file
    key.with_suffix(".pub").write_text(
        (site.top / "sshd" / "authorized_keys").read_text()
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


def _write_inventory(site: Site) -> None:
    """Copy the manifests, with an inventory of targets on the one node."""
    folder = site.folder / "manifests"
    shutil.copytree(MANIFESTS, folder)
    # What is "yours" there.
    (command,) = re.findall(r"^ +(sed -i .* passwd group)$", _GUIDE.read_text(), re.M)
    command = command.replace("1000650000", str(site.user))
    subprocess.run(("sh", "-c", command), cwd=folder, check=True)
    for file in folder.iterdir():
        text = file.read_text().replace(
            "namespace: dbcheck", f"namespace: {site.namespace}"
        )
        text = text.replace("local-path", f"local-{site.namespace}")
        text = re.sub(r"(?<=runAsGroup: )\d+", str(site.group), text)
        file.write_text(text)
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
        "far": {
            **on_node,
            **switch,
            "ansible_port": site.far.port,
            "dbcheck_power_off_s": 1,
        },
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
        place = site.data / f"{name}.yml"
        inventory = {"all": of_all}
        place.write_text(yaml.safe_dump(inventory))
        os.chown(place, site.user, site.user)
    shutil.copy(site.data / "orders.yml", folder / "inventory.yml")
    key = " ".join((site.folder / "host.pub").read_text().split()[:2])
    node = site.sshd.known_hosts.read_text() + site.far.known_hosts.read_text()
    (folder / "known_hosts").write_text(f"[dbcheck-witness]:2222 {key}\n{node}")


def _make_switch(site: Site) -> None:
    switch = site.data / "switch"
    switch.write_text(
        Template(_SWITCH).substitute(
            port=site.sshd.port,
            address=site.sshd.host,
            folder=site.top / "database",
            boot=site.top / "boot",
        )
    )
    switch.chmod(0o700)
    os.chown(switch, site.user, site.user)
