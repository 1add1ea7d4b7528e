"""Makes a rig from an entry: the only place that knows the concrete classes.

The concrete classes of a lab are in lab_rig.py, which is imported only for a lab.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from dbcheck.base.cores import count_free_cores
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.base.processes import make_search_path
from dbcheck.config.secret import Secret, read_variable
from dbcheck.config.target import KubernetesSettings, RestoreSettings
from dbcheck.cycle.host import describe_drive_server
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.hosts.volumes import CopiedFolder, VolumesOfHost
from dbcheck.inventory.entry import Entry
from dbcheck.kubernetes.pods import DatabasePods
from dbcheck.model.cluster import Promise, SiteKind, require_stagger
from dbcheck.model.replication import PromotedBy, RebuiltBy
from dbcheck.ports.engine import Engine
from dbcheck.ports.power import PowerSwitch
from dbcheck.ports.site import Copying, Node, PodSource, Restarter, Site
from dbcheck.ports.witness import Witness
from dbcheck.power import consent
from dbcheck.power.driveonly import DriveOnlySwitch
from dbcheck.power.kinds.command import (
    CopyByPrograms,
    FaultByPrograms,
    PromotionProgram,
    RebuildProgram,
    RestartProgram,
)
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.power.registry import ReadOnlySwitch
from dbcheck.power.switched_host import recall_measured_depth
from dbcheck.remote.address import SshOptions
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.site.cluster import Cluster
from dbcheck.site.group import Group
from dbcheck.site.repointing import Repointing
from dbcheck.site.single import SingleServer
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits

if TYPE_CHECKING:
    from dbcheck.load.far import FarWorkers

PASSWORD_VARIABLE = "DBCHECK_PASSWORD"


def make_engine(target: str, secret: Secret | None) -> Engine:
    """Return the engine of *target*.

    Without a *secret* the password is in DBCHECK_PASSWORD, or where the driver looks.
    """
    password = secret.read() if secret else read_variable(PASSWORD_VARIABLE)
    return open_engine(target, password)


def make_power_switch(entry: Entry, ask: Callable[[str], None]) -> PowerSwitch:
    """Return the switch that *entry* names; raise UsageError if it cannot be one.

    ask: shows a text to the human who cuts.
    """
    host = make_power_host(entry) if entry.power.needs_host else None
    return entry.power.open(host, ask)


def make_scoped_switch(entry: Entry, ask: Callable[[str], None]) -> PowerSwitch:
    """Return the switch of *entry*, which cuts drives alone where *entry* says so.

    Whether the switch of a lab does so is decided by the lab's own spec.
    """
    switch = make_power_switch(entry, ask)
    if isinstance(entry.power, LabConfig):
        from dbcheck.runner import lab_rig

        return lab_rig.scope_lab_switch(switch, entry.power.name, entry.power_scope)
    host = make_power_host(entry)
    if entry.drive_scope is None or host is None:
        return switch
    server = describe_drive_server(make_engine(entry.target, entry.password))
    return DriveOnlySwitch(
        switch, host, entry.drive_scope, server, timeout_s=entry.power.timeout_s
    )


def make_power_host(entry: Entry) -> TargetHost | None:
    """Return the host whose power is cut, None if *entry* names none to ask."""
    if not entry.host:
        return None
    return open_host(entry.host, entry.host_options)


def make_witness(
    entry: Entry, window: WindowLimits, *, accept_new_host_key: bool | None = None
) -> Witness:
    """Return the witness of *entry*; nothing is connected yet; the caller closes it."""
    if not entry.witness:
        where = f"host {entry.name}: dbcheck_witness" if entry.name else "--witness"
        raise UsageError(
            f"{where} is missing",
            id=ErrorId.WITNESS_MISSING,
            hint="Name the place where acks are logged.",
        )
    options = SshOptions(
        accept_new_host_key=accept_new_host_key,
        identity_file=entry.witness_identity,
        known_hosts=entry.witness_known_hosts,
    )
    return open_witness(entry.witness, limits=window, options=options)


@contextlib.contextmanager
def open_entry_witness(
    entry: Entry, window: WindowLimits, accept_new_host_key: bool | None = None
) -> Iterator[Witness]:
    """Give the witness of *entry*, and close it."""
    witness = make_witness(entry, window, accept_new_host_key=accept_new_host_key)
    with contextlib.closing(witness):
        yield witness


@contextlib.contextmanager
def open_far_workers(
    entry: Entry, address: str, sessions: int
) -> Iterator[FarWorkers | None]:
    """Give the Dask workers that are to load the target of *entry*; None without any.

    address: of the workers' scheduler, "" for no workers.  Raise UsageError.
    """
    if not address:
        yield None
        return
    from dbcheck.load.far import open_workers

    # Each worker reads the password itself, from the same source as this process.
    engines = {
        host.name: partial(make_engine, host.target, host.password)
        for host in (entry, *entry.standbys)
    }
    with open_workers(address, engines[entry.name], sessions, engines) as far:
        yield far


def choose_processes(
    entry: Entry, workload: Workload, *, lockstep: bool = False, targets: int = 1
) -> Workload:
    """Return *workload* with processes for this machine's cores, unless it has some.

    In lockstep the witness's disk sets the pace, and every log of its own adds writes
    to it.  A lab's server is on this machine, and needs the cores itself.
    targets: how many are loaded at once, and share the cores.
    """
    if lockstep or isinstance(entry.power, LabConfig):
        return workload
    return workload.for_cores(max(1, count_free_cores() // targets))


def make_host(entry: Entry) -> TargetHost | None:
    """Return the host that *entry* names, None if it is not to be asked."""
    if isinstance(entry.power, LabConfig) and not entry.host:
        from dbcheck.runner import lab_rig

        return lab_rig.find_lab_host(entry.power.name)
    return make_power_host(entry)


def make_pod_source(settings: KubernetesSettings | None) -> PodSource | None:
    """Return what shows the pods that *settings* name, None without any."""
    return DatabasePods(settings) if settings else None


def make_restarter(entry: Entry) -> Restarter | None:
    """Return the restarter of *entry*'s server, None if it has none."""
    if entry.restart:
        return RestartProgram(entry.restart, entry.return_s)
    if isinstance(entry.power, LabConfig):
        from dbcheck.runner import lab_rig

        return lab_rig.find_lab_restarter(entry.power.name)
    return None


def make_rig(
    entry: Entry,
    witness: Witness,
    progress: PlainProgress,
    runs: Path,
    window: WindowLimits,
    *,
    cuts: bool = True,
) -> Rig:
    """Return the rig that *entry* describes; raise UsageError if it cannot be used.

    cuts: False for a command that cuts nothing, and promotes no node of a cluster.

    With the switch of a lab the target must be that lab's server: only a lab may
    have its witness on the same host.
    """
    rig = Rig(
        site=make_site(entry, progress, cuts=cuts),
        witness=witness,
        reader=FrameLogReader(),
        listener=progress,
        runs=runs,
        limits=Limits(
            silence_s=entry.silence_s, return_s=entry.return_s, window_acks=window.acks
        ),
        read_twice=entry.twice,
        before_load=partial(remember_consent, entry.cut_with),
        witness_pods=make_pod_source(entry.witness_pods),
        client=make_client(entry) if cuts else None,
        fault=_make_fault(entry),
        promises=entry.promises,
        client_command=find_client_program(entry) if cuts else (),
    )
    if isinstance(entry.power, LabConfig):
        from dbcheck.runner import lab_rig

        return lab_rig.join_lab(rig, entry.power.name)
    return rig


def make_copying_rig(
    entry: Entry,
    witness: Witness,
    progress: PlainProgress,
    runs: Path,
    window: WindowLimits,
    *,
    after_loss: bool = False,
) -> Rig:
    """Return the rig of *entry* that reads a copy of its server.

    after_loss: its power is cut, and what was shipped by then is restored; else it is
    copied beside the load, and never cut.  Its host is not asked: what it shows of a
    cut is of no use here.
    """
    entry = replace(entry, twice=False, client_target="", client_command=())
    if not after_loss:
        entry = replace(entry, power_drives=(), fault=(), fault_end=())
        if not isinstance(entry.power, LabConfig):
            entry = replace(entry, power=ManualConfig())
    rig = make_rig(entry, witness, progress, runs, window)
    site = rig.site.with_writer(replace(rig.site.writer, host=None))
    rig = replace(rig, site=site, copying=make_copying(entry, after_loss=after_loss))
    return rig if after_loss else replace(rig, before_load=lambda: None)


def make_copying(entry: Entry, *, after_loss: bool) -> Copying | None:
    """Return how the server of *entry* is copied and restored, None if nobody can.

    Only a rig that reads a copy has it: otherwise the server itself is read.
    after_loss: the copy is what was shipped until the power was cut.

    Raise UsageError for a copy at the server's own address, and for a program that is
    not there.
    """
    settings = entry.copied_by
    if settings is None:
        return None
    restored = make_engine(settings.target, entry.password)
    own = make_engine(entry.target, entry.password)
    if restored.target == own.target:
        raise UsageError(
            f"dbcheck_restore: target: {restored.target} is the server itself",
            id=ErrorId.RESTORE_NOT_SET_UP,
            hint="Restore the copy on another host, or to another port.",
        )
    node = Node(restored, ManualConfig().open(None, lambda _text: None))
    programs = CopyByPrograms(settings)
    programs.require_programs()
    if after_loss:
        return Copying(programs, SingleServer(node), settings.rpo_s)
    volumes = make_volumes(entry, settings)
    return Copying(
        *(programs, SingleServer(node)), until=settings.until, volumes=volumes
    )


def make_volumes(entry: Entry, settings: RestoreSettings) -> VolumesOfHost | None:
    """Return what shows if the volumes of *settings* are copied at one moment.

    None without volumes; raise UsageError if no host can be asked to write on them.
    """
    if not settings.volumes:
        return None
    host = make_host(entry)
    if host is None:
        raise UsageError(
            f"{entry_label(entry)} has dbcheck_restore: volumes, and no host that could"
            " write on them",
            id=ErrorId.RESTORE_NOT_SET_UP,
            hint="Give the target's host (ansible_host, or --target-host), or leave"
            " volumes out.",
        )
    folders = [CopiedFolder(each.target, each.restored) for each in settings.volumes]
    return VolumesOfHost(host, folders, open_host(settings.restored_host))


def remember_consent(hosts: Sequence[Entry]) -> None:
    """Store that the user consented to the cuts of *hosts*; raise RunWriteError."""
    for host in hosts:
        consent.remember_consent(host.switched_host)


def make_client(entry: Entry) -> Engine | None:
    """Return the engine of the address that clients use, None if none is named.

    Raise UsageError for the address of another kind of server.
    """
    if not entry.client_target:
        return None
    client = make_engine(entry.client_target, entry.password)
    family = make_engine(entry.target, entry.password).family
    if client.family != family:
        raise UsageError(
            f"{client.target}, the address of the clients, is of another kind of server"
            f" than {entry.target}",
            id=ErrorId.TARGET_URL_INVALID,
            hint="Name the address at which clients reach this server or cluster"
            " (--client-target, or dbcheck_client_target).",
        )
    return client


def _make_fault(entry: Entry) -> FaultByPrograms | None:
    """Return what begins and ends the fault beside the load, None if there is none.

    Raise UsageError if a program of it is not here.
    """
    if not entry.fault:
        return None
    single = "" if entry.standbys else entry.name
    fault = FaultByPrograms(entry.fault, entry.fault_end, single)
    fault.require_programs()
    return fault


def find_client_program(entry: Entry) -> Sequence[str]:
    """Return the program that commits as clients do, () if none is named.

    Raise UsageError if it cannot be run, or if the address of clients is named, too.
    """
    command = entry.client_command
    if command and entry.client_target:
        raise UsageError(
            "dbcheck_client_target and dbcheck_client_command are both given",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave one of them out: the program knows itself where to connect.",
        )
    if command and shutil.which(command[0], path=make_search_path()) is None:
        raise UsageError(
            f"{command[0]}, the program of dbcheck_client_command, is not here or"
            " cannot be run",
            id=ErrorId.CLIENT_PROGRAM_MISSING,
            hint="Install it on this machine, or write its path; make it executable"
            " (chmod +x).",
        )
    return command


def make_site(entry: Entry, progress: PlainProgress, *, cuts: bool) -> Site:
    """Return the nodes of *entry*; raise UsageError if they cannot be cut so.

    cuts: see make_rig().
    """
    if not entry.standbys:
        require_stagger(None, entry.stagger_s)
        ask = progress.ask
        if entry.machine:  # where the pod is, nobody at the plug may know
            ask = partial(_ask_human, progress, entry.machine)
        return SingleServer(_make_node(entry, ask))
    nodes = {}
    for node_entry in (entry, *entry.standbys):
        named = node_entry.machine or node_entry.name
        node = _make_node(node_entry, partial(_ask_human, progress, named))
        if not cuts:
            node = replace(node, power=ReadOnlySwitch(node.power))
        nodes[node_entry.name] = node
    kind, (promise, *others) = SiteKind(entry.topology), entry.promises
    promoted_by = PromotedBy(entry.promoted_by) if cuts else PromotedBy.AUTO
    rebuilt_by = RebuiltBy(entry.rebuilt_by) if cuts else RebuiltBy.NOBODY
    common = (kind, nodes, entry.name, promise)
    has_all = Promise.ALL in entry.promises
    stagger_s = entry.stagger_s if promise is Promise.ALL or not has_all else 0.0
    given: _Given = {
        "stagger_s": stagger_s,
        "stagger_of_all_s": entry.stagger_s,
        "rebuilt_by": rebuilt_by,
        "rebuild": _make_rebuild(entry, nodes, rebuilt_by),
    }
    site: Cluster
    if kind.is_group:
        site = Group(*common, bootstrap=promoted_by is PromotedBy.SQL, **given)
    else:
        program = PromotionProgram(entry.promote, entry.return_s)
        site = Cluster(
            *common,
            by=promoted_by,
            promote=program.promote if promoted_by is PromotedBy.COMMAND else None,
            brings_back=rebuilt_by.awaits_reading,
            **given,
        )
    for other in others:
        site.promising(other)  # to refuse before a cut what cannot be tested
    return site


class _Given(TypedDict):
    """What every cluster is given beside its nodes."""

    stagger_s: float
    stagger_of_all_s: float
    rebuilt_by: RebuiltBy
    rebuild: Callable[[str, str], None] | None


def _make_rebuild(
    entry: Entry, nodes: Mapping[str, Node], by: RebuiltBy
) -> Callable[[str, str], None] | None:
    """Return what has a node follow the new writer, None if dbcheck does not do that.

    A group has a means of its own for SQL.
    """
    programs = {
        host.name: RebuildProgram(host.rebuild, host.return_s).rebuild
        for host in (entry, *entry.standbys)
        if host.rebuild
    }
    if by is RebuiltBy.COMMAND:
        return lambda name, writer: programs[name](name, writer)
    if by not in (RebuiltBy.SQL, RebuiltBy.CLONE):
        return None
    secret = entry.replication_password
    return Repointing(
        *(nodes, entry.replication_user, secret.read() if secret else "", programs),
        clones=by is RebuiltBy.CLONE,
    ).rebuild


def _ask_human(progress: PlainProgress, name: str, text: str) -> None:
    """Ask a human to do *text* to the host *name*, one of several."""
    progress.ask(f"{name}: {text}")


def _make_node(entry: Entry, ask: Callable[[str], None]) -> Node:
    return Node(
        engine=make_engine(entry.target, entry.password),
        power=make_scoped_switch(entry, ask),
        host=make_host(entry),
        log_path=entry.server_log,
        restore_command=entry.restore_command,
        measured_depth=recall_measured_depth(entry.switched_host),
        class_assumed=entry.power.class_assumed,
        restarter=make_restarter(entry),
        pods=make_pod_source(entry.kubernetes),
    )


def list_cut_nodes(
    entry: Entry, site: Site, *, in_turn: bool = False
) -> list[tuple[Entry, Node]]:
    """Return the hosts that lose their power in a cut, each with its node.

    in_turn: also those that may lose it in a later cut.
    """
    if not entry.standbys:
        return [(entry, site.writer)]
    hosts = entry.cut_in_turn if in_turn else entry.cut_with
    return [(host, site.nodes[host.name]) for host in hosts]


def entry_label(entry: Entry) -> str:
    """Return the name of *entry*'s target for messages."""
    return entry.name or entry.target or entry.host or ""


def require_entry_host(entry: Entry) -> TargetHost:
    """Return the host of *entry*; raise HostError if none is named."""
    host = make_host(entry)
    if host is None:
        raise HostError(
            "its host is not known",
            id=ErrorId.TARGET_HOST_MISSING,
            hint="Name it by --target-host, or by ansible_host in the inventory, "
            "without dbcheck_ask_host: false.",
        )
    return host
