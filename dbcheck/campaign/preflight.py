"""What is settled before the load: facts, table, manifest, log, warm rows."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import dbcheck
from dbcheck import interrupt
from dbcheck.campaign.host import end_canaries, look_at_host
from dbcheck.campaign.independence import require_independent
from dbcheck.campaign.rig import Rig
from dbcheck.core.control import ControlFacts
from dbcheck.core.history import PREFLIGHT_SESSION, Ack
from dbcheck.core.moments import Moment
from dbcheck.core.schedule import Schedule
from dbcheck.core.target import HostBefore
from dbcheck.errors import EngineError, WitnessError
from dbcheck.load.single import commit
from dbcheck.ports import Canaries, ServerFacts, WitnessLog
from dbcheck.runs import Manifest, RunFolder, new_run_id
from dbcheck.workload import Workload

WARM_ROWS = 4
YOUNG_MAX_S = 10.0  # far more than a server's clock needs to tell two starts apart
_MOMENT_S = 1.0


@dataclass(frozen=True, slots=True)
class Started:
    """A cycle that is ready for its load."""

    run: RunFolder
    manifest: Manifest
    schedule: Schedule
    log: WitnessLog
    canaries: Canaries | None


def preflight(
    rig: Rig,
    workload: Workload,
    seed: int,
    *,
    control: bool = False,
    controls: Sequence[ControlFacts] = (),
    moment: Moment | None = None,
    different: Sequence[int] = (),
) -> Started:
    """Settle everything before the load; raise before anything is created if unfit.

    On return the table exists, the witness holds the manifest, and WARM_ROWS
    rows were committed, acked, logged and seen over a second connection.
    control: the cycle is to be a control; controls: what those before it showed.
    moment: when the cut is to come, None to have it drawn.
    different: see ports.TableFacts.
    """
    interrupt.require_none()
    rig.listener.phase("preflight", f"{rig.engine.target} and {rig.witness.url}")
    rig.engine.check(workload.shape, relaxed=control)
    witness = rig.witness.facts()
    if not rig.lab:
        require_independent(rig.engine.target, rig.witness.kind, witness)
    if said := rig.engine.tighten():
        rig.listener.phase("control", said)
    before = _facts(rig)
    host, canaries = look_at_host(rig, before)
    try:
        manifest = _manifest(rig, workload, seed, before, host)
        manifest = replace(
            manifest,
            control=control,
            controls=tuple(controls),
            moment=moment,
            table=replace(manifest.table, different=tuple(different)),
        )
        run = RunFolder.create(rig.runs, manifest)
        log = rig.witness.create(manifest.run_id, manifest.to_bytes())
        schedule = Schedule(seed, manifest.epoch, workload.payload_bytes)
        started = Started(run, manifest, schedule, log, canaries)
        try:
            rig.engine.plant_canary(manifest.epoch)
            _warm(rig, started)
        except BaseException:
            with contextlib.suppress(WitnessError):
                log.close()  # the error that ended the preflight is the one to show
            raise
    except BaseException:
        end_canaries(rig, canaries, remove=True)
        raise
    skipped = rig.engine.checkpoint()
    detail = f"no checkpoint: {skipped}" if skipped else "checkpointed"
    rig.listener.phase("warm", f"{WARM_ROWS} rows committed and seen; {detail}")
    return started


def _facts(rig: Rig) -> ServerFacts:
    """Read the server's facts once any later start can be told from its own.

    A server that tells its start to the second must be older than that first.  Raise
    EngineError if that would take long: then its clock went back since it started.
    """
    while True:
        interrupt.require_none()
        facts = rig.engine.facts()
        wait_s = facts.young_us / 1e6
        if wait_s <= 0:
            return facts
        if wait_s > YOUNG_MAX_S:
            raise EngineError(
                f"the server says that it started about {wait_s:.0f} s from now:"
                " its clock went back meanwhile",
                hint="Restart the server now that its clock is right; if each boot"
                " begins with a wrong one, set the hardware clock: hwclock --systohc.",
            )
        if wait_s > _MOMENT_S:
            rig.listener.phase("preflight", f"the server is young: {wait_s:.0f} s")
        time.sleep(wait_s)


def _manifest(
    rig: Rig,
    workload: Workload,
    seed: int,
    before: ServerFacts,
    host: HostBefore | None,
) -> Manifest:
    table = rig.engine.prepare(workload.shape)
    logs = workload.processes + 1 if workload.processes > 1 else 1  # see crews_of()
    moment = datetime.now(UTC)
    return Manifest(
        run_id=new_run_id(moment.strftime("%Y%m%d-%H%M%S")),
        created=moment.isoformat(timespec="seconds"),
        dbcheck=dbcheck.__version__,
        seed=seed,
        epoch=secrets.randbelow(2**62) + 1,
        family=rig.engine.family,
        target=rig.engine.target,
        workload=workload,
        witness=rig.witness.url,
        witness_kind=rig.witness.kind,
        window_acks=rig.limits.window_acks * max(1, logs - 1),
        logs=logs,
        power=rig.power.kind,
        clock_us=time.monotonic_ns() // 1000,
        wall_us=time.time_ns() // 1000,
        before=before,
        table=table,
        lab=rig.lab,
        host=host,
    )


def _warm(rig: Rig, started: Started) -> None:
    """Commit the first rows and see each of them over another connection.

    A driver that left a transaction open would make every ack of the load a
    lie; here it is caught.
    """
    shape = started.manifest.workload.shape
    session = rig.engine.open_session(shape)
    try:
        for seq in range(1, WARM_ROWS + 1):
            row_id = commit(session, started.schedule.row(PREFLIGHT_SESSION, seq))
            acked_us = time.monotonic_ns() // 1000
            if not rig.engine.row_exists(shape, row_id):
                raise EngineError(
                    f"row {row_id} was acked, but a second connection cannot see it",
                    hint="Something between dbcheck and the server, perhaps a "
                    "pooler, keeps a transaction open; connect to the server itself.",
                )
            started.log.append(Ack(PREFLIGHT_SESSION, seq, row_id, acked_us))
    finally:
        session.close()
