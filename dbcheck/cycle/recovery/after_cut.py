"""After the cut: wait for the server, then read every survivor before any write."""

from __future__ import annotations

import math
from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import NotBack, TableLost, UsageError
from dbcheck.cycle.host import read_client_clocks
from dbcheck.cycle.outage import OutageWatch
from dbcheck.cycle.recovery.other_nodes import (
    UNCOMPARED,
    compare_members,
    compare_rejoined_nodes,
    describe_nodes_kept_off,
    describe_nodes_left_off,
    list_comparable_nodes,
    read_old_writer,
)
from dbcheck.cycle.recovery.reading import (
    Reading,
    describe_other_lineage,
    store_nothing_read,
)
from dbcheck.cycle.recovery.second_reading import UNFINISHED, read_second_time
from dbcheck.cycle.recovery.untrusted_run import ask_nodes
from dbcheck.cycle.recovery.waiting import await_facts
from dbcheck.cycle.rig import Rig
from dbcheck.judge.absence import judge_absence
from dbcheck.judge.case import Case
from dbcheck.model.host import ClientClocks, HostAfter
from dbcheck.model.records import AfterRecord, Manifest
from dbcheck.ports.listener import Phase
from dbcheck.runs.folder import RunFolder

STANDS = "the earlier FAIL stands"
NOT_PROMOTED = "no other node took over, so no row was read and no loss is claimed"
NOT_WHOLE = (
    "the cluster does not have all its nodes again, so no row was read and no loss is"
    " claimed. Start every node. If the cluster does not form by itself, start it from"
    " the most advanced node, as the product's manual says; then run dbcheck reconcile"
)


def read_survivors(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    earlier_failure: AfterRecord | None = None,
    refused_s: float = math.inf,
    outage: OutageWatch | None = None,
) -> AfterRecord:
    """Wait until the server is back, read its table, store and return what was found.

    earlier_failure: the record of an earlier reconciliation, in which the server had
    failed.  It stands unless the rows of that very server can be read now.
    refused_s: raise EngineError, with nothing stored, if the server refuses the login
    for longer.
    outage: is told when the server takes queries, and when its rows were read; None
    where nothing was measured.
    Raise UsageError, with nothing stored, if the target is at another address than the
    server that took the load, and has other data.

    Nothing is written to the server.  A table that is gone or damaged, or a server
    that its own data keep from coming back, is a finding and not an error.  A server
    that is late for another reason is recorded as unanswered; reconcile may be
    repeated.  Raise PowerError if the rig failed and not the server.
    """
    outage = outage or OutageWatch(rig, run, manifest)  # nothing is measured
    missing = False
    try:
        facts, failure = await_facts(rig, refused_s)
    except TableLost as error:
        failure, facts, missing = str(error), None, error.missing
    except NotBack as error:
        return earlier_failure or _store_absence(rig, run, manifest, str(error))
    answered = None if facts is None else _note_answer(outage)
    other_lineage = describe_other_lineage(rig.site, manifest, facts) if facts else ""
    reader, node = rig.site.reader, manifest.nodes[rig.site.reader_name]
    if other_lineage and reader.engine.target != node.target:
        raise UsageError(
            f"{reader.engine.target} is not the server of run {manifest.run_id}:"
            f" {other_lineage}",
            id=ErrorId.NOT_SERVER_OF_RUN,
            hint=f"Its load went to {manifest.writer.target}; nothing was read, and the"
            " run can still be reconciled there.",
        )
    _show_takeover(rig, manifest)
    reading = Reading(rig, run, manifest)
    if facts is not None and not other_lineage:
        try:
            reading.read(facts)
        except NotBack as error:
            return earlier_failure or _store_absence(
                rig, run, manifest, str(error), reading
            )
        failure, missing = reading.failure or failure, missing or reading.missing
    outage.finish(None if other_lineage or reading.unanswered else facts)
    why_unread = other_lineage or reading.unanswered
    if missing or facts is None:
        why_unread = failure or "no server answers"
    if earlier_failure is not None and why_unread:
        rig.listener.phase(Phase.READ, f"{why_unread}; {STANDS}")
        return earlier_failure
    nodes = ask_nodes(rig, run, manifest, facts, remove_canaries=not reading.unanswered)
    if reading.unanswered:  # the facts are not final
        nodes = {n: replace(node_after, facts=None) for n, node_after in nodes.items()}
    after = replace(
        reading.record(nodes, rig.site.reader_name),
        failure=failure,
        missing=missing,
        answered=answered,
        promotion=rig.site.promotion(),  # looks once more at the old writer
    )
    after = _keep_earlier_findings(after, earlier_failure) if earlier_failure else after
    after = _add_second_reading(rig, run, after, other_lineage)
    return _add_other_nodes(rig, run, manifest, after)


def _note_answer(outage: OutageWatch) -> ClientClocks:
    """Return when the server answered; have commits tried from now on at the latest."""
    outage.begin()
    return read_client_clocks()


def _show_takeover(rig: Rig, manifest: Manifest) -> None:
    if rig.site.reader_name != manifest.writer_name:
        took_over = f"{rig.site.reader_name} took over from {manifest.writer_name}"
        rig.listener.phase(Phase.RESTORE, took_over)


def _add_other_nodes(
    rig: Rig, run: RunFolder, manifest: Manifest, after: AfterRecord
) -> AfterRecord:
    """Store *after*, then again with what the other nodes show; return the last record.

    The record of each step says that the next step is not done, in case this client
    ends.
    """
    if names := list_comparable_nodes(rig.site, after):
        _store_record(run, replace(after, others=dict.fromkeys(names, UNCOMPARED)))
        others = compare_members(rig, run, manifest, after, names)
        after = replace(after, others=others)
    after = _store_record(run, after)
    if not rig.site.kept_off:
        return after
    if not rig.site.brings_back:
        rig.listener.phase(Phase.RESTORE, describe_nodes_kept_off(rig.site))
        return after
    after = _store_record(run, read_old_writer(rig, run, manifest, after))
    if not rig.site.rejoins or after.failure or not after.survivors:
        return after  # there is nothing to compare with
    return _store_record(
        run, replace(after, others=compare_rejoined_nodes(rig, run, manifest, after))
    )


def _add_second_reading(
    rig: Rig, run: RunFolder, after: AfterRecord, other_lineage: str
) -> AfterRecord:
    """Return *after* with a second reading, if the user asked for one.

    *after* is stored before that.  There is no second reading of a control, whose rows
    prove nothing, of another server, or if the first reading failed.
    """
    manifest, facts = run.manifest(), after.facts
    unusable = other_lineage or after.failure or after.engines
    if not rig.read_twice or manifest.control or facts is None or unusable:
        return after
    _store_record(run, replace(after, again=UNFINISHED))
    return replace(after, again=read_second_time(rig, run, manifest, after, facts))


def _keep_earlier_findings(
    after: AfterRecord, earlier_failure: AfterRecord
) -> AfterRecord:
    """Return *after* with the findings that only the earlier reconciliation had.

    The earlier reconciliation read the canaries and removed them.
    """
    nodes = {
        name: replace(
            node,
            host=_keep_canary_remains(node.host, earlier_failure.nodes[name].host),
        )
        for name, node in after.nodes.items()
    }
    return replace(after, nodes=nodes, failed_before=earlier_failure.failure)


def _keep_canary_remains(
    host: HostAfter | None, earlier: HostAfter | None
) -> HostAfter | None:
    """Return *host* with the canaries that *earlier* shows."""
    if host is None or earlier is None:
        return host
    return replace(
        host, remains=earlier.remains, remains_elsewhere=earlier.remains_elsewhere
    )


def _store_absence(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    text: str,
    reading: Reading | None = None,
) -> AfterRecord:
    """Store the cause of the server's absence: its data, or another cause.

    With another cause the canaries stay for whoever reconciles the run.
    reading: this client's reading of the server, None if there was none; then the facts
    of earlier readings are kept.
    """
    observed = reading or Reading(rig, run, manifest)
    nodes = ask_nodes(rig, run, manifest, None, remove_canaries=False)
    stored = store_nothing_read(run, manifest)
    record = AfterRecord(
        nodes,
        rig.site.reader_name,
        "",
        stored,
        observed.canary,
        promotion=rig.site.promotion(),
        decisions=observed.decisions,
        refill=observed.refill,
        deleted=observed.deleted,
    )
    if rig.site.reader_name in rig.site.kept_off:
        rig.listener.phase(
            Phase.RESTORE, describe_nodes_left_off(rig.site.kept_off, rig.site.kind)
        )
        return _store_record(run, replace(record, unanswered=f"{NOT_PROMOTED}: {text}"))
    if rig.site.kind.is_group:
        return _store_record(run, replace(record, unanswered=f"{text}: {NOT_WHOLE}"))
    absence = judge_absence(Case(manifest, run.load(), run.restore(), record), text)
    failure, unanswered = "", ""
    if absence.failure:
        failure = f"{text}; {absence.failure}"
        nodes = ask_nodes(rig, run, manifest, None)
    else:
        unanswered = f"{text}; {absence.doubt}"
    return _store_record(
        run, replace(record, failure=failure, nodes=nodes, unanswered=unanswered)
    )


def _store_record(run: RunFolder, after: AfterRecord) -> AfterRecord:
    """Store the record *after*, and beside it the server's log in full."""
    host = after.nodes[after.reader_name].host
    if host is not None and host.log is not None:
        run.write_lines("server.log", [host.log.text])
    run.write_after(after)
    return after
