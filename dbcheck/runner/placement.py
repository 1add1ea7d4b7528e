"""Finds the pods of an entry, and the hosts of the inventory that they run on.

An entry with dbcheck_kubernetes has neither SSH nor a switch of its own: both are those
of the node.  Which node that is may change, so it is asked when a command begins, and
each cycle asks again.  Between two cuts of a cluster its pods are found anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import Inventory, load_inventory, make_cluster
from dbcheck.inventory.machines import place_on_machine
from dbcheck.kubernetes.pods import DatabasePods
from dbcheck.model.cluster import NAME_CHARACTERS, Promise, SiteKind
from dbcheck.model.family import MYSQL, POSTGRESQL
from dbcheck.model.pods import Pod, PodRole, list_live_primaries
from dbcheck.model.records import Manifest
from dbcheck.ports.site import Site
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.assemble import make_engine, make_site, remember_consent
from dbcheck.runner.guard import check_interlocks, require_passable, require_stays_off
from dbcheck.runs.folder import RunFolder

# What a URL may name in place of its host; MySQL's socket is one of this machine.
_OTHER_PLACES = ("host", "hostaddr", "unix_socket")
_NO_RUNS: Mapping[str, RunFolder] = MappingProxyType({})


def find_placed_server(inventory: Inventory, name: str) -> Entry:
    """Return the target *name*, see place_entry(); refuse pods that are a cluster."""
    entry = inventory.entry(name)
    if entry.kubernetes and entry.topology:
        raise UsageError(
            f"{name} is a cluster, and this command is for one server",
            id=ErrorId.ONE_HOST_NEEDED,
            hint=f"Test it as one: dbcheck run {name}, or dbcheck campaign {name}.",
        )
    return place_entry(inventory, entry)


def find_placed_targets(
    inventory: Inventory,
    names: Sequence[str],
    begun: Mapping[str, RunFolder] = _NO_RUNS,
) -> list[Entry]:
    """Return each target, also clusters, placed on the nodes of its pods if it has any.

    begun: the newest run of a target: a cluster in pods is placed as it was then, for
    its old writer may still be without power, see place_as_run().
    Raise UsageError also if two are on one node: a cut would hit both loads, and each
    switch would take the other's time without power for its own.
    """
    entries = [_find_placed(inventory, name, begun.get(name)) for name in names]
    on = dict[str, str]()
    for entry in entries:
        for host in (entry, *entry.standbys):
            where = host.machine or host.name
            other = on.setdefault(where, entry.title)
            if other != entry.title:
                raise UsageError(
                    f"{other} and {entry.title} are on {where}: a cut for one would"
                    " hit the other's load",
                    id=ErrorId.TARGETS_SHARE_HOST,
                    hint="Test one after the other.",
                )
    return entries


def _find_placed(inventory: Inventory, name: str, last: RunFolder | None) -> Entry:
    if inventory.is_cluster(name):
        return place_entry(inventory, inventory.cluster(name))
    entry = inventory.entry(name)
    if not (entry.kubernetes and entry.topology):
        return place_entry(inventory, entry)
    if last is not None:
        return place_as_run(entry, last.manifest(), is_own=last.is_own())
    placed = place_entry(inventory, entry, clusters=True)
    _require_own_nodes(placed)
    return placed


def _require_own_nodes(entry: Entry) -> None:
    """Raise UsageError if two pods are on one node: each may take the load in turn."""
    on = dict[str, str]()
    for host in (entry, *entry.standbys):
        other = on.setdefault(host.machine, host.name)
        if other != host.name:
            raise UsageError(
                f"the pods {other} and {host.name} are both on {host.machine}, and"
                " after a cut either of them may take the load",
                id=ErrorId.KUBERNETES_PODS_SHARE_NODE,
                hint="Keep the pods on different nodes (podAntiAffinity, required).",
            )


def read_inventory_target(entry: Entry) -> str:
    """Return the URL of *entry* as its inventory has it: a pod's address changes."""
    if not entry.has_pods_as_nodes:
        return entry.target
    return load_inventory(Path(entry.inventory)).entry(entry.cluster).target


class Placement:
    """A target on its hosts; those of a cluster in pods may be others after each cut.

    entry: as it was placed last.
    """

    def __init__(
        self,
        entry: Entry,
        view: PlainProgress,
        *,
        yes: bool = False,
        i_know: bool = False,
    ) -> None:
        """yes, i_know: see check_interlocks(), for a host that a pod moves to."""
        self.entry, self._view, self._yes, self._i_know = entry, view, yes, i_know

    @property
    def find_nodes(self) -> Callable[[str], Site] | None:
        """See Rig.find_nodes; None unless it is a cluster in pods."""
        return self._place_anew if self.entry.has_pods_as_nodes else None

    def remember_consent(self) -> None:
        """Store that the user consented to the cuts of all its hosts."""
        remember_consent(self.entry.cut_in_turn)

    def _place_anew(self, leads: str) -> Site:
        entry, inventory = self.entry, load_inventory(Path(self.entry.inventory))
        whole = replace(
            entry,
            name=entry.cluster,
            target=read_inventory_target(entry),
            writer=leads,
            standbys=(),
        )
        placed = place_entry(inventory, whole, clusters=True)
        _require_own_nodes(placed)
        known = {host.machine for host in (entry, *entry.standbys)}
        for host in (placed, *placed.standbys):
            if host.machine not in known:
                require_passable(host)
                require_stays_off(placed, host)
                engine = make_engine(host.target, host.password)
                check_interlocks(host, engine, yes=self._yes, i_know=self._i_know)
        self.entry = placed
        return make_site(placed, self._view, cuts=True)


def place_to_look(entry: Entry) -> Entry:
    """Return *entry* as place_entry() does, for a command that cuts nothing.

    Without a host for its node in the inventory, no host is asked.
    """
    if entry.kubernetes is None or entry.machine:
        return entry
    try:
        return place_entry(load_inventory(Path(entry.inventory)), entry)
    except UsageError as error:
        if error.id is not ErrorId.KUBERNETES_NODE_UNKNOWN:
            raise
        return entry


def place_entry(inventory: Inventory, entry: Entry, *, clusters: bool = False) -> Entry:
    """Return *entry*, placed on the node of its pod if it runs in pods.

    clusters: of an entry with dbcheck_topology, return the pods as a cluster.
    Raise UsageError, and HostError if the API of Kubernetes does not answer.
    """
    for each in entry.standbys:
        if each.kubernetes:
            raise UsageError(
                f"{entry.inventory}: {each.name} is in pods, and a host of a cluster"
                " is not",
                id=ErrorId.CLUSTER_VARIABLES_DIFFER,
                hint="Describe a cluster of pods as one host: dbcheck_kubernetes with a"
                " selector for all of them, and dbcheck_topology.",
            )
    if entry.kubernetes is None:
        return entry
    pods = DatabasePods(entry.kubernetes).read()
    primary = _choose_writer(entry, pods)
    if clusters and entry.topology:
        return _place_cluster(inventory, entry, pods, primary)
    return _place_on_node(inventory, entry, primary.node, primary)


def _choose_writer(entry: Entry, pods: Sequence[Pod]) -> Pod:
    """Return the pod that dbcheck_writer names, else the primary.

    Any node of Galera may take the load: without a name it is the first one.
    """
    if entry.writer:
        for pod in pods:
            if pod.name == entry.writer:
                return pod
        raise UsageError(
            f"{entry.inventory}: {entry.name}: dbcheck_writer is {entry.writer!r},"
            " which is no pod of the selector",
            id=ErrorId.WRITER_NOT_IN_CLUSTER,
            hint=f"Leave it out, or name one of {', '.join(pod.name for pod in pods)}.",
        )
    if entry.topology == SiteKind.GALERA.value:
        return pods[0]
    return find_primary(pods, lambda pod: _takes_writes(entry, pod))


def place_as_run(entry: Entry, manifest: Manifest, *, is_own: bool) -> Entry:
    """Return *entry*, placed on the nodes that had the pods when the run began.

    The pods may be elsewhere by now, which the judgement then says.  The address of a
    cluster's pod is asked of Kubernetes: the password is sent there, and the address of
    before may be a stranger's by now.  The old writer's pod may be gone for good.  It
    gets no login, and is only asked whether anything answers there, so its address may
    be that of the manifest.
    is_own: this user's client wrote the manifest.  Raise UsageError, HostError.
    """
    if entry.kubernetes is None:
        return entry
    inventory = load_inventory(Path(entry.inventory))
    before = {name: node.pod for name, node in manifest.nodes.items() if node.pod}
    if manifest.promise is None:
        pod = before.get(manifest.writer_name)
        return _place_on_node(inventory, entry, pod.node, pod) if pod else entry
    if not entry.topology or before.keys() != manifest.nodes.keys():
        raise UsageError(
            f"run {manifest.run_id} is of another cluster than {entry.name}: its nodes"
            f" are {', '.join(manifest.nodes)}",
            id=ErrorId.SITE_DIFFERS_FROM_RUN,
            hint="Name the cluster by which it was made, with the same inventory.",
        )
    now = {pod.name: pod for pod in DatabasePods(entry.kubernetes).read()}
    placed = {}
    for name, pod in before.items():
        if name not in now and not (is_own and name == manifest.writer_name):
            raise UsageError(
                f"{pod.named}, of the cluster of run {manifest.run_id}, is gone",
                id=ErrorId.SITE_DIFFERS_FROM_RUN,
                hint="Do it again once kubectl get pods shows a pod of that name. The"
                " writer's pod is not needed with the account that made the run.",
            )
        own = _make_pod_entry(entry, now.get(name, pod), manifest.writer_name)
        placed[name] = _place_on_node(inventory, own, pod.node, pod)
    return make_cluster(entry.name, list(placed.values()))


def find_primary(pods: Sequence[Pod], takes_writes: Callable[[Pod], bool]) -> Pod:
    """Return the pod whose server takes the writes.

    takes_writes: asks a server; it is called only if no label shows a primary, and for
    pods whose labels show nothing.  Raise UsageError if that is no pod, or several.
    """
    if len(pods) == 1 and pods[0].role is PodRole.UNKNOWN:
        return pods[0]
    primaries = list_live_primaries(pods)
    if not primaries:
        unknown = (pod for pod in pods if pod.role is PodRole.UNKNOWN)
        primaries = list(filter(takes_writes, unknown))
    if len(primaries) == 1:
        return primaries[0]
    named = ", ".join(pod.name for pod in primaries or pods)
    what = f"{named} are all primaries" if primaries else f"none of {named} is"
    raise UsageError(
        f"it is not clear which pod is the primary: {what}"
        + ("" if primaries else " a primary, by its labels or by its server's answer"),
        id=ErrorId.KUBERNETES_PRIMARY_UNCLEAR,
        hint="Wait until the operator has decided. If these pods are of several"
        " databases, give dbcheck_kubernetes a selector that matches one.",
    )


def _place_on_node(
    inventory: Inventory, entry: Entry, node: str, pod: Pod | None
) -> Entry:
    machine = inventory.find_machine(node)
    if machine is None:
        raise UsageError(
            f"{inventory.file} has no host for {node}, the node that"
            f" {pod.named if pod else 'the pod'} runs on",
            id=ErrorId.KUBERNETES_NODE_UNKNOWN,
            hint=f"Add it as a host {node}, or with dbcheck_kubernetes_node: {node},"
            " without a dbcheck_target: with its SSH and its power switch.",
        )
    return place_on_machine(entry, machine, pod)


def _place_cluster(
    inventory: Inventory, entry: Entry, pods: Sequence[Pod], primary: Pod
) -> Entry:
    """Return the primary's entry, with those of the other pods as its standbys."""
    if entry.listed_promises != (Promise.WRITER_GONE,):
        raise UsageError(
            f"{entry.inventory}: {entry.name}: dbcheck_survives is {entry.survives!r},"
            " and of pods dbcheck can test writer-gone alone",
            id=ErrorId.PROMISE_NOT_TESTABLE,
            hint="A pod that starts again has another address. Set dbcheck_survives:"
            " writer-gone.",
        )
    _require_own_node(primary, pods)
    for pod in pods:
        if len(pod.name) > NAME_CHARACTERS:
            raise UsageError(
                f"the name of {pod.named} has more than {NAME_CHARACTERS} characters",
                id=ErrorId.VALUE_INVALID,
                hint="A run names each node by its pod: use shorter names.",
            )
    placed = [
        _place_on_node(
            inventory, _make_pod_entry(entry, pod, primary.name), pod.node, pod
        )
        for pod in pods
    ]
    return make_cluster(entry.name, placed)


def _require_own_node(primary: Pod, pods: Sequence[Pod]) -> None:
    """Raise UsageError if a standby loses its power with the primary."""
    for pod in pods:
        if pod.name != primary.name and pod.node == primary.node:
            raise UsageError(
                f"{pod.named} runs on {pod.node}, as the primary {primary.name} does:"
                " both would lose their power",
                id=ErrorId.KUBERNETES_PODS_SHARE_NODE,
                hint="Keep the pods on different nodes (podAntiAffinity, required).",
            )


def _make_pod_entry(entry: Entry, pod: Pod, writer: str) -> Entry:
    """Return the entry of one pod of a cluster; its name is the pod's."""
    target = _address_pod(entry.target, pod)
    return replace(entry, name=pod.name, target=target, writer=writer)


def _address_pod(target: str, pod: Pod) -> str:
    """Return the URL *target* with the address of a pod in place of its host.

    libpq keeps the name as well: the server's certificate has it, and not the address,
    and so has a line of ~/.pgpass (PostgreSQL 18 manual, 32.1.2, hostaddr).

    A node port or a load balancer has a port of its own, at which no pod listens: then
    the usual one of the server is taken, if the container declares that.
    """
    if not pod.addresses:
        raise UsageError(
            f"{pod.named} has no address yet",
            id=ErrorId.POD_NOT_READY,
            hint="Wait until it runs.",
        )
    from sqlalchemy.engine import make_url  # a look at a witness has no use for it

    url = make_url(target).difference_update_query(_OTHER_PLACES)
    is_libpq = url.get_backend_name() == POSTGRESQL.name
    usual = POSTGRESQL.port if is_libpq else MYSQL.port
    if usual in pod.ports and (url.port or usual) not in pod.ports:
        url = url.set(port=usual)
    address = pod.addresses[0]
    if is_libpq and url.host:
        url = url.update_query_dict({"hostaddr": address})
    else:
        url = url.set(host=address)
    return url.render_as_string(hide_password=False)


def _takes_writes(entry: Entry, pod: Pod) -> bool:
    try:
        engine = make_engine(_address_pod(entry.target, pod), entry.password)
        return engine.takes_writes()
    except EngineError:
        return False
