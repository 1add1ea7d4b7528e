"""After the cut: wait for the server, then read every survivor before any write."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from dbcheck import interrupt
from dbcheck.campaign.host import ask_host
from dbcheck.campaign.rig import Rig
from dbcheck.core.evidence import Standing, same_server
from dbcheck.core.history import Row
from dbcheck.core.schedule import Schedule
from dbcheck.core.survivors import Inspector, Records
from dbcheck.errors import EngineError, TableLost, UsageError
from dbcheck.ports import ServerFacts
from dbcheck.runs import AfterRecord, Manifest, RunFolder

POLL_S = 0.2
PATIENCE_S = 5.0
DIFFERENT_MAX = 1000  # rows kept whole; all are counted and listed


def read_survivors(rig: Rig, run: RunFolder, manifest: Manifest) -> AfterRecord:
    """Wait until the server is back, read its table, store and return what was found.

    Raise UsageError, with nothing stored, if another server is asked, at another
    address, than the one that took the load.

    Nothing is written to the server.  A table that is gone or damaged, or a
    server that certainly does not come back, is a finding and not an error;
    raise EngineError if the server does not answer within limits.return_s, and
    PowerError if what failed was the rig and not the server.
    """
    failure = wait_for_server(rig)
    missing = False
    facts = None if failure else rig.engine.facts()
    if facts is not None and rig.engine.target != manifest.target:
        _require_same(rig.engine.target, manifest, facts)
    stored, canary, logged = run.write_survivors(()), None, None
    if facts is not None and _is_same(manifest.before, facts):
        rig.listener.phase("read", "every row, in a read-only transaction")
        try:
            canary = rig.engine.canary(manifest.epoch)
            logged = rig.engine.logged(manifest.before.clock_us)
            stored = run.write_survivors(_records(rig, run, manifest))
        except TableLost as error:
            rig.power.failure()  # raises if it was the drive that went meanwhile
            failure, missing = str(error), error.missing
    host = ask_host(rig, manifest)
    after = AfterRecord(facts, failure, *stored, canary, host, missing, logged)
    run.write_after(after)
    return after


def wait_for_server(rig: Rig) -> str:
    """Return "" once the server takes queries, or why it certainly never will.

    Raise EngineError if it does not within limits.return_s, PowerError if what failed
    was the rig and not the server.
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
            raise EngineError(
                f"the server takes no queries {waited_s:.0f} s after the cut: {reason}",
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


def _records(rig: Rig, run: RunFolder, manifest: Manifest) -> Iterator[Records]:
    schedule = Schedule(manifest.seed, manifest.epoch, manifest.workload.payload_bytes)
    inspector = Inspector(schedule)
    different: list[Row] = []
    for batch in rig.engine.survivors(manifest.workload.shape):
        records, wrong = inspector.inspect(batch)
        room = DIFFERENT_MAX - len(different)
        different += [batch.row(at) for at in wrong[:room].tolist()]
        yield records
    run.write_lines("different.jsonl", map(_line, different))


def _line(row: Row) -> str:
    return json.dumps({**row._asdict(), "payload": row.payload.hex()}) + "\n"
