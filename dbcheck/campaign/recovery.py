"""After the cut: wait for the server, then read every survivor before any write."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from dbcheck import interrupt
from dbcheck.campaign.ending import Ending
from dbcheck.campaign.host import ask_host
from dbcheck.campaign.rig import Rig
from dbcheck.core.absence import CutFacts, judge_absence
from dbcheck.core.evidence import Standing, same_server
from dbcheck.core.history import Row
from dbcheck.core.indexloss import IndexLoss
from dbcheck.core.schedule import Schedule
from dbcheck.core.survivors import Inspector, Records
from dbcheck.errors import EngineError, IndexDamaged, NotBack, TableLost, UsageError
from dbcheck.ports import ServerFacts
from dbcheck.runs import AfterRecord, Manifest, RunFolder

POLL_S = 0.2
PATIENCE_S = 5.0
DIFFERENT_MAX = 1000  # rows kept whole; all are counted and listed


def read_survivors(rig: Rig, run: RunFolder, manifest: Manifest) -> AfterRecord:
    """Wait until the server is back, read its table, store and return what was found.

    Raise UsageError, with nothing stored, if another server is asked, at another
    address, than the one that took the load.

    Nothing is written to the server.  A table that is gone or damaged, or a server
    that its own data keep from coming back, is a finding and not an error; so is one
    that is not back in its time for another reason, which is final in no way.  Raise
    PowerError if what failed was the rig and not the server.
    """
    missing, index = False, None
    try:
        failure = wait_for_server(rig)
        facts = None if failure else rig.engine.facts()
    except TableLost as error:
        failure, facts, missing = str(error), None, error.missing
    except NotBack as error:
        return _absent(rig, run, manifest, str(error))
    if facts is not None and rig.engine.target != manifest.target:
        _require_same(rig.engine.target, manifest, facts)
    stored, canary, logged = run.write_survivors(()), None, None
    if facts is not None and _is_same(manifest.before, facts):
        rig.listener.phase("read", "every row, in a read-only transaction")
        ending = Ending(rig, manifest, facts)
        try:
            if not manifest.no_canary:
                canary = rig.engine.canary(manifest.epoch)
            logged = rig.engine.logged(manifest.before.clock_us)
            survivors = _Survivors(rig, run, manifest)
            stored = run.write_survivors(survivors.records())
            index = survivors.index
        except TableLost as error:
            rig.power.failure()  # raises if it was the drive that went meanwhile
            failure, missing = str(error), error.missing
        except EngineError as error:
            if not (why := ending.why()):
                raise
            failure = f"{error}: {why}"
    host = ask_host(rig, manifest)
    after = AfterRecord(
        facts, failure, *stored, canary, host, missing, logged, index=index
    )
    return _stored(run, after)


def _absent(rig: Rig, run: RunFolder, manifest: Manifest, said: str) -> AfterRecord:
    """Store why the server is not back: its data, or what may be no fault of its own.

    In the latter case the canaries stay for whoever reconciles the run.
    """
    load, restored = run.load(), run.restore()
    cut = CutFacts(
        asked=None if load is None else bool(load.cut and load.gone),
        measured=restored is not None,
        farewell=load.farewells[0] if load and load.farewells else "",
        lab=str(manifest.lab.get("rung", "")),
    )
    host = ask_host(rig, manifest, remove=False)
    absence = judge_absence(cut, manifest.host, host)
    failure, unanswered = "", ""
    if absence.failure:
        failure = f"{said}; {absence.failure}"
        host = ask_host(rig, manifest)
    else:
        unanswered = f"{said}; {absence.doubt}"
    stored = run.write_survivors(())
    after = AfterRecord(None, failure, *stored, None, host, unanswered=unanswered)
    return _stored(run, after)


def _stored(run: RunFolder, after: AfterRecord) -> AfterRecord:
    """Store what was found, and the server's log beside it for whoever wants it all."""
    if after.host is not None and after.host.log is not None:
        run.write_lines("server.log", [after.host.log.text])
    run.write_after(after)
    return after


def wait_for_server(rig: Rig) -> str:
    """Return "" once the server takes queries, or why it certainly never will.

    Raise NotBack if it does not within limits.return_s, PowerError if what failed was
    the rig and not the server.
    """
    rig.listener.phase("restore", f"waiting up to {rig.limits.return_s:.0f} s")
    began, told = time.monotonic(), ""
    while True:
        interrupt.require_none()
        reason = rig.engine.ready()
        if reason is None:
            return ""
        if failure := rig.power.failure():
            return failure
        waited_s = time.monotonic() - began
        if waited_s > rig.limits.return_s:
            raise NotBack(
                f"the server took no queries within {waited_s:.0f} s: {reason}",
                hint="Once it is back, before anything writes to it: dbcheck reconcile",
            )
        if reason != told and waited_s > PATIENCE_S:
            rig.listener.phase("restore", reason)
            told = reason
        time.sleep(POLL_S)


def _require_same(target: str, manifest: Manifest, facts: ServerFacts) -> None:
    item = same_server(manifest.before.identity, facts.identity)
    if item.standing is Standing.CONTRADICTED:
        raise UsageError(
            f"{target} is not the server of run {manifest.run_id}: {item.reason}",
            hint=f"Its load went to {manifest.target}; nothing was read, and the run "
            "can still be reconciled there.",
        )


def _is_same(before: ServerFacts, after: ServerFacts) -> bool:
    item = same_server(before.identity, after.identity)
    return item.standing is not Standing.CONTRADICTED


class _Survivors:
    """The rows of the table, inspected.

    index: why the table's index disagrees with it, known once all were read.
    """

    def __init__(self, rig: Rig, run: RunFolder, manifest: Manifest) -> None:
        self._rig, self._run, self._manifest = rig, run, manifest
        self.index: IndexLoss | None = None

    def records(self) -> Iterator[Records]:
        """Yield every row without its payload, and keep those that are different."""
        manifest = self._manifest
        sizes = manifest.workload.payload_bytes
        inspector = Inspector(Schedule(manifest.seed, manifest.epoch, sizes))
        different: list[Row] = []
        try:
            for batch in self._rig.engine.survivors(manifest.workload.shape):
                records, wrong = inspector.inspect(batch)
                room = DIFFERENT_MAX - len(different)
                different += [batch.row(at) for at in wrong[:room].tolist()]
                yield records
        except IndexDamaged as error:  # after the last row
            self._rig.power.failure()  # raises if it was the drive that went meanwhile
            self.index = IndexLoss(str(error), error.rows)
        self._run.write_lines("different.jsonl", map(_line, different))


def _line(row: Row) -> str:
    return json.dumps({**row._asdict(), "payload": row.payload.hex()}) + "\n"
