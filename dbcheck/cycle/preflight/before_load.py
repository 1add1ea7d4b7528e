"""Prepares the load: facts, tables, manifest, witness log, and rows that warm up."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import dbcheck
from dbcheck.agent.wire import clock_us
from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    EngineError,
    NoCanary,
    RunWriteError,
    UsageError,
    WitnessError,
)
from dbcheck.base.owners import find_user_name
from dbcheck.base.system import now_us
from dbcheck.cycle.host import HostCanaries, end_canaries, inspect_host
from dbcheck.cycle.outage import prepare_outage_table
from dbcheck.cycle.preflight.audit import audit_node_before_load
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.preflight.first_rows import commit_first_rows, write_checkpoint
from dbcheck.cycle.preflight.independence import (
    require_independent,
    require_other_host,
    require_other_pod,
)
from dbcheck.cycle.preflight.members import (
    add_connections,
    find_membership,
    refuse_plan_of_control,
    require_kind,
)
from dbcheck.cycle.preflight.server_pod import choose_pod, read_pods
from dbcheck.cycle.recovery.second_reading import require_restarter
from dbcheck.cycle.recovery.waiting import read_settled_facts
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.tables import (
    drop_tables_if_disk_half_full,
    fill_tables,
    require_sound_tables,
)
from dbcheck.model.clocks import describe_clocks, measure_ahead
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import CutClass, LabCut, PowerScope
from dbcheck.model.depth import HeldCanary
from dbcheck.model.managed import SERVICE
from dbcheck.model.moments import PlannedCut
from dbcheck.model.records import Manifest, NodeBefore
from dbcheck.model.replication import Membership
from dbcheck.model.server import ServerFacts
from dbcheck.model.verdict import ControlFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.ports.listener import Listener, Phase
from dbcheck.ports.power import DriveScoped
from dbcheck.ports.site import Node
from dbcheck.ports.witness import WitnessHostFacts, WitnessLog
from dbcheck.rows.copied import CopyPlan
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.plans.registry import (
    payload_bytes_max,
    statements_of,
    tables_of,
    usage_of,
)
from dbcheck.rows.schedule import EPOCH_MAX, Schedule, draw_epoch
from dbcheck.rows.table import SIDES
from dbcheck.rows.tasks import find_problem_of_kinds
from dbcheck.rows.workload import PlanKind, Workload, describe_processes
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder, new_run_id


def require_failover(node: Node, server: ServerFacts) -> None:
    """Raise UsageError if a managed service is given a host, or no failover as its cut.

    Its host cannot be asked, and no switch cuts its power.
    """
    service = server.settings.get(SERVICE, "")
    if not service:
        return
    if node.host is not None:
        raise UsageError(
            f"{node.engine.target} is a server of {service}: no host of it can be"
            " asked, so one that is named is another",
            id=ErrorId.MANAGED_SERVICE_HAS_NO_HOST,
            hint="Leave out --target-host, or set dbcheck_ask_host: false. A managed"
            " service can be tested by a forced failover, which shows no depth.",
        )
    declared = node.power.cut_class
    if declared is not CutClass.FAILOVER:
        raise UsageError(
            f"{node.engine.target} is a server of {service}, whose power only the"
            f" provider can cut: a cut of class {declared.value!r} is not possible",
            id=ErrorId.MANAGED_SERVICE_NEEDS_FAILOVER,
            hint="Use programs that force a failover (dbcheck_power: exec), and declare"
            f" it: --power-class {CutClass.FAILOVER.value}, or dbcheck_power_class."
            " docs/guides/cloud.md shows them.",
        )


@dataclass(frozen=True, slots=True)
class Started:
    """A cycle that is ready for its load.

    canaries: name of a node -> the canaries that run on its host.
    held: the session of the crash canary, to be closed once the survivors are read;
          None if it needs no session, or there is no canary.
    no_checkpoint: why the server made no checkpoint just now, "" if it made one.
    no_outage: why the time to recover is not measured, "" if it is.
    """

    run: RunFolder
    manifest: Manifest
    plan: Plan
    log: WitnessLog
    canaries: Mapping[str, HostCanaries]
    held: HeldCanary | None = None
    no_checkpoint: str = ""
    no_outage: str = ""


def run_preflight(
    rig: Rig,
    workload: Workload,
    seed: int,
    *,
    control: bool = False,
    controls: Sequence[ControlFacts] = (),
    moment: PlannedCut | None = None,
    known: Known = NOTHING_KNOWN,
    emptied: Callable[[Known], None] | None = None,
) -> Started:
    """Prepare the cycle's load; raise before any row is written if something is unfit.

    On return the tables exist and hold the workload's rows_before, the witness holds
    the manifest, and WARM_ROWS rows were committed, acked, logged and seen over a
    second connection.
    control: the cycle is to be a control.  controls: what earlier controls showed.
    moment: when the cut is to come, None to have it drawn.
    emptied: called before the tables are dropped, with what is known without them; None
    if the tables must stay.
    known: what earlier runs showed; raise TargetChanged if the server shows it no more.
    """
    interrupt.raise_if_interrupted()
    require_restarter(rig)
    stored.require_room(rig.runs)
    engine = rig.site.writer.engine
    rig.listener.phase(Phase.PREFLIGHT, _describe_load(rig, workload))
    witness = _require_fit(rig, workload, known, control=control)
    if text := engine.restore_durability():
        rig.listener.phase(Phase.CONTROL, text)
    canaries: dict[str, HostCanaries] = {}
    held: HeldCanary | None = None
    try:
        workload = _drop_impossible_tasks(rig, workload)
        nodes = _describe_nodes(rig, workload, witness, canaries)
        writer = nodes[rig.site.writer_name]
        known.require_same_setup(writer)
        known = drop_tables_if_disk_half_full(rig, workload, known, writer, emptied)
        if workload.rows_before:
            fill_epoch = _choose_epoch(rig, seed, control=control)
            schedule = Schedule(seed, fill_epoch, workload.payload_bytes)
            known = fill_tables(rig, workload, schedule, writer.facts, known)
        epoch = _choose_epoch(rig, seed, control=control)
        manifest = _make_manifest(rig, workload, seed, epoch, nodes, control=control)
        manifest = _compare_clocks(rig, manifest, witness)
        require_sound_tables(engine, tables_of(workload))
        known.require_same_nodes(manifest)
        manifest = replace(
            manifest,
            controls=tuple(controls),
            moment=_replace_impossible_task(moment, workload),
            tables=known.complete_tables(manifest.tables),
        )
        held, no_canary = _plant_canary(rig, manifest)
        manifest = replace(manifest, no_canary=no_canary)
        run = _new_run(rig, manifest)
        log = rig.witness.create(manifest.run_id, stored.to_bytes(manifest))
        started = Started(run, manifest, manifest.plan(), log, canaries, held)
        try:
            return _warm_up(rig, started)
        except BaseException:
            with contextlib.suppress(WitnessError):
                log.close()  # an error here must not hide the one that is raised
            raise
    except BaseException:
        if held is not None:
            held.close()
        end_canaries(rig.site, canaries, remove=True)
        raise


def _warm_up(rig: Rig, started: Started) -> Started:
    no_outage = prepare_outage_table(rig, started.manifest)
    commit_first_rows(rig.site, started.manifest, started.log)
    return replace(started, no_checkpoint=write_checkpoint(rig), no_outage=no_outage)


def _describe_load(rig: Rig, workload: Workload) -> str:
    places = f"{rig.site.writer.engine.target} and {rig.witness.url}"
    processes = describe_processes(workload.processes or 1, workload.cores)
    return "; ".join(filter(None, (places, processes)))


def _plant_canary(rig: Rig, manifest: Manifest) -> tuple[HeldCanary | None, str]:
    """Plant the crash canary; return the session that holds it, if one does.

    Return also why there is no canary, "" if there is one.
    """
    if manifest.copy is not None:  # a dump would wait for the lock of its table
        return None, "no crash canary: another server is read"
    if rig.site.kind.is_group:
        return None, "no crash canary: a node of a group may copy another's data"
    try:
        engine, server = rig.site.writer.engine, manifest.writer.facts
        local = rig.site.kind.is_cluster
        return engine.plant_canary(manifest.epoch, server=server, local=local), ""
    except NoCanary as error:
        text = f"{error}. {error.hint}" if error.hint else str(error)
        rig.listener.phase(Phase.PREFLIGHT, text)
        return None, text


def _new_run(rig: Rig, manifest: Manifest) -> RunFolder:
    """Make the run folder, and keep its key outside of it, too.

    Without the key there, later commands cannot know that this client made the folder.
    """
    run = RunFolder.create(rig.runs, manifest)
    try:
        run.remember()
    except RunWriteError as error:
        text = f"the key of this run is stored only in its folder: {error}"
        rig.listener.phase(Phase.PREFLIGHT, text)
    return run


def _drop_impossible_tasks(rig: Rig, workload: Workload) -> Workload:
    """Return the workload without the tasks that this server, or account, cannot do.

    Raise EngineError if no useful task remains.
    """
    if not workload.housekeeping:
        return workload
    engine = rig.site.writer.engine
    lacking = engine.lacking(workload.housekeeping)
    kinds = tuple(kind for kind in workload.housekeeping if kind not in lacking)
    for kind, why in lacking.items():
        rig.listener.phase(Phase.PREFLIGHT, f"no housekeeping task {kind.value}: {why}")
    if (
        why := find_problem_of_kinds(kinds)
        if kinds
        else "none of its housekeeping tasks can be done"
    ):
        raise EngineError(
            f"the workload's housekeeping is not possible: {why}",
            id=ErrorId.HOUSEKEEPING_NOT_POSSIBLE,
            hint="; ".join(f"{kind.value}: {text}" for kind, text in lacking.items()),
        )
    return replace(workload, housekeeping=kinds)


def _replace_impossible_task(
    moment: PlannedCut | None, workload: Workload
) -> PlannedCut | None:
    """Return *moment*; a housekeeping task that this server cannot do is replaced."""
    if moment is None or moment.task in (None, *workload.housekeeping):
        return moment
    kinds = workload.housekeeping
    return replace(moment, task=kinds[moment.number % len(kinds)])


def _require_fit(
    rig: Rig, workload: Workload, known: Known, *, control: bool
) -> WitnessHostFacts:
    """Return the witness's facts; raise unless it and the server fit the *workload*."""
    engine = rig.site.writer.engine
    grouped = rig.site.kind.is_group
    if rig.site.promise is not None:
        # This comes before Engine.check(), which refuses a member of any group: the
        # error of require_kind() names the topology that fits.
        require_kind(rig.site, engine.facts().identity)
    asks_host = any(node.host is not None for node in rig.site.nodes.values())
    weakens = Weakens.for_promise(rig.site.promise) if control else None
    require_server(engine, workload, weakens, grouped=grouped, asks_host=asks_host)
    _require_point(rig)
    if known.find_node(rig.site.writer_name).identity:
        known.require_same(rig.site.writer_name, engine.target, engine.facts())
    for node in rig.site.nodes.values():
        if isinstance(node.power, DriveScoped):
            node.power.require_fit()
    witness = rig.witness.facts()
    if not rig.lab and rig.cuts_power:
        for node in rig.site.nodes.values():
            endpoints = node.engine.endpoints()
            require_independent(endpoints, rig.witness.kind, witness)
    if rig.far is not None:
        far = rig.far.loading(rig.site.writer_name)
        far.require_fit(engine.facts(), rig.witness, witness)
    if workload.rows_before:
        engine.require(Feature.FILL)
    refuse_plan_of_control(workload.plan, weakens)
    if workload.plan is PlanKind.TWO_PHASE:
        _require_two_phase(engine, workload.sessions + 1, weak=control)
    return witness


def _require_point(rig: Rig) -> None:
    """Raise an error if the point that is to be read of the server cannot be."""
    if rig.copying is not None and rig.copying.until is not None:
        rig.site.writer.engine.require_point(rig.copying.until)


def require_server(
    engine: Engine,
    workload: Workload,
    weakens: Weakens | None = None,
    *,
    grouped: bool = False,
    asks_host: bool = False,
) -> None:
    """Raise EngineError unless the account may run the cycle, and the server is fit.

    Missing rights come first, all in one error; see Engine.require_rights() and
    Engine.check().
    weakens: the kind of control that the cycle is, None if it is none.  Raise
    UsageError for a server without controls.
    grouped: the server is tested together with the other nodes of its group.
    """
    if weakens is not None:
        engine.require(Feature.CONTROL)
    engine.require_rights(usage_of(workload), control=weakens, asks_host=asks_host)
    if not grouped:
        engine.require_alone()
    engine.check(statements_of(workload), payload_bytes_max(workload))
    if weakens is Weakens.FLUSH:
        engine.check_weakening()


def _require_two_phase(engine: Engine, transactions: int, *, weak: bool) -> None:
    """Raise EngineError if the server cannot hold *transactions* prepared ones.

    Transactions that an earlier run left prepared are rolled back first.
    """
    for name in engine.prepared():
        engine.decide(name, commit=False)
    engine.require_two_phase(transactions, weak=weak)


def _describe_nodes(
    rig: Rig,
    workload: Workload,
    witness: WitnessHostFacts,
    canaries: dict[str, HostCanaries],
) -> dict[str, NodeBefore]:
    """Describe each node, and start the canaries on its host.

    canaries: each host's canaries are added once they run, so the caller can end them
    if this raises in the middle.
    """
    nodes: dict[str, NodeBefore] = {}
    members: dict[str, Membership] = {}
    for name, node in rig.site.nodes.items():
        facts, ahead_us = _read_server_facts(node.engine, rig.listener)
        if rig.cuts_power:
            require_failover(node, facts)
        pods = read_pods(node, grouped=rig.site.kind.is_group)
        writes = name == rig.site.writer_name
        if writes and rig.witness_pods is not None:
            evidence = require_other_pod(pods, rig.witness_pods, witness)
            rig.listener.phase(Phase.PREFLIGHT, evidence)
        places = node.engine.places(tables_of(workload))
        writer = facts if writes else nodes[rig.site.writer_name].facts
        of_writer = writer.identity
        if member := find_membership(rig.site, name, facts.identity, of_writer):
            members[name] = member
        host, running = inspect_host(
            node, rig.listener, facts, places, may_write=writes
        )
        if running is not None:
            canaries[name] = running
        primary = writes and not rig.site.kind.is_group
        pod = choose_pod(node, pods, host, rig.listener, is_primary=primary)
        nodes[name] = NodeBefore(
            target=node.engine.target,
            facts=replace(facts, hostname=""),
            power=node.power.kind,
            host=host,
            places=places,
            apart=None
            if rig.lab or not rig.cuts_power
            else require_other_host(host, witness),
            cut_class=_find_cut_class(rig, node),
            class_assumed=node.class_assumed,
            reached=node.measured_depth,
            restore_command=node.restore_command,
            audit=audit_node_before_load(
                node, facts, host, places, rig.listener, rig.audited
            ),
            scope=_find_power_scope(node),
            member=member.name if member else "",
            ahead_us=ahead_us,
            pod=pod,
        )
    return add_connections(rig, nodes, members)


def _read_server_facts(engine: Engine, listener: Listener) -> tuple[ServerFacts, int]:
    """Return the facts of the server, and by how much its clock is ahead.

    Show which of them cannot be read, and why.
    """
    asked_us = clock_us()
    facts = read_settled_facts(engine, listener)
    ahead_us = measure_ahead(facts.clock_us, asked_us, clock_us())
    for name, why in facts.unreadable.items():
        listener.phase(Phase.PREFLIGHT, f"{name} cannot be read: {why}")
    return facts, ahead_us


def _compare_clocks(
    rig: Rig, manifest: Manifest, witness: WitnessHostFacts
) -> Manifest:
    """Return *manifest* with the witness's clock; show which clocks differ."""
    manifest = replace(manifest, witness_ahead_us=witness.ahead_us)
    if text := describe_clocks(manifest):
        rig.listener.phase(Phase.PREFLIGHT, text)
    return manifest


def _choose_epoch(rig: Rig, seed: int, *, control: bool) -> int:
    """Return an epoch that no cycle on this server ever had.

    The past of most servers is unknown, so the epoch is drawn at random.  Drives may
    give back rows of that past, which must not count as rows of this cycle.
    """
    if rig.used_epochs is None:
        return secrets.randbelow(EPOCH_MAX) + 1
    epoch = draw_epoch(seed, control=control, used=rig.used_epochs)
    rig.used_epochs.add(epoch)
    return epoch


def _make_manifest(
    rig: Rig,
    workload: Workload,
    seed: int,
    epoch: int,
    nodes: dict[str, NodeBefore],
    *,
    control: bool,
) -> Manifest:
    site, engine = rig.site, rig.site.writer.engine
    before = nodes[site.writer_name]
    tables = engine.prepare(tables_of(workload), server=before.facts)
    if workload.housekeeping:
        engine.discard(SIDES)  # the side tables of earlier cycles
    # prepare() may have given the data a name by which they are recognised.
    facts = replace(before.facts, identity=engine.facts().identity)
    nodes = {**nodes, site.writer_name: replace(before, facts=facts)}
    processes = workload.processes or 1  # not chosen in a lab
    has_processes = rig.far is not None or processes > 1
    # Log 0 is the client's, and each process or worker has a log of its own.
    ack_logs = processes + 1 if has_processes else 1
    # Rows that readers see in a control tell nothing about the server.
    has_readers = workload.readers > 0 and not control
    now = datetime.now(UTC)
    return Manifest(
        run_id=new_run_id(now.strftime("%Y%m%d-%H%M%S")),
        created=now.isoformat(timespec="seconds"),
        dbcheck=dbcheck.__version__,
        seed=seed,
        epoch=epoch,
        family=engine.family,
        site=site.kind,
        nodes=nodes,
        writer_name=site.writer_name,
        workload=replace(workload, processes=processes),
        witness=rig.witness.url,
        witness_kind=rig.witness.kind,
        window_acks=rig.limits.window_acks * max(1, ack_logs - 1),
        logs=ack_logs + has_readers,
        clock_us=now_us(),
        wall_us=clock_us(),
        tables=tables,
        lab=rig.lab,
        control=control,
        seen_log=has_readers,
        own_clocks=rig.far is not None,
        promise=site.promise,
        stagger_s=site.stagger_s,
        user=find_user_name(),
        client_target=rig.client.target if rig.client else "",
        fault=rig.fault is not None,
        copy=_plan_copy(rig),
    )


def _plan_copy(rig: Rig) -> CopyPlan | None:
    """Return what is to be restored elsewhere, None if the server itself is read."""
    if rig.copying is None:
        return None
    restored = rig.copying.restored.writer.engine
    return CopyPlan(restored.target, rig.copying.rpo_s, rig.copying.until)


def _find_cut_class(rig: Rig, node: Node) -> CutClass:
    """Return the class of the node's cut: PROCESS in a lab that cuts no drive."""
    of_switch = node.power.cut_class
    if of_switch is CutClass.LAB_DRIVE and rig.lab.get("cut") == LabCut.PROCESS.value:
        return CutClass.PROCESS
    return of_switch


def _find_power_scope(node: Node) -> PowerScope:
    """Return the scope of the switch: the host, or its drives alone."""
    alone = isinstance(node.power, DriveScoped)
    return PowerScope.DRIVE if alone else PowerScope.HOST
