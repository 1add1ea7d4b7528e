"""Judges a stored run; touches no server and no witness."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from dbcheck.audit import rules
from dbcheck.audit.rules import Finding
from dbcheck.campaign.logs import StoredLogs
from dbcheck.core import evidence, hostevidence, serverlog
from dbcheck.core.classic import reconcile_ids
from dbcheck.core.control import control_item, judge_control
from dbcheck.core.depth import DepthFinding
from dbcheck.core.earlier import Before
from dbcheck.core.evidence import AtTheCut, Item, Judgement, Standing, Verdict
from dbcheck.core.reconcile import Claim, Reconciliation, reconcile
from dbcheck.errors import LogDamaged
from dbcheck.ports import LogFacts, LogReader, ServerFacts, Shape
from dbcheck.runs import AfterRecord, LoadRecord, Manifest, RestoreRecord, RunFolder

RANGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """A judged run.

    found:    None if the server did not come back or the log is damaged.
    findings: settings under which an ack is not durable.
    depth:    how deep the cut went, None if it was not measured.
    """

    run: RunFolder
    manifest: Manifest
    load: LoadRecord | None
    after: AfterRecord
    found: Reconciliation | None
    judgement: Judgement
    findings: tuple[Finding, ...]
    depth: DepthFinding | None

    @property
    def verdict(self) -> Verdict:
        """The verdict alone."""
        return self.judgement.verdict

    def before_cut_s(self, acked_us: int) -> float | None:
        """Return how long before the cut an ack came, None if that is not known.

        A reply that was on its way at the cut is read after it; that counts as 0.
        """
        cut_us = _cut_us(self.load)
        if cut_us is None or acked_us < 0:
            return None
        return max(0, cut_us - acked_us) / 1e6


def judge_run(run: RunFolder, reader: LogReader) -> Outcome:
    """Reconcile a run whose log and survivors are stored; write losses and verdict."""
    manifest, load, after = run.manifest(), run.load(), run.after()
    completed = load.canaries if load else None
    depth = hostevidence.depth_of(manifest.host, completed, after.host)
    items = _items(manifest, load, after, depth)
    if time_off := _without_power(load, run.restore(), depth):
        items.append(time_off)
    if manifest.controls:
        items.append(control_item(manifest.controls))
    flagged = rules.flagged(manifest.family, manifest.before.settings)
    findings = tuple(f for f in flagged if f.standing is rules.Standing.UNSAFE)
    found: Reconciliation | None = None
    try:
        logs = StoredLogs(run, reader, manifest, load)
        facts = logs.facts()
        items += [_log_item(facts, load), _held_item(facts, load)]
        if not after.failure and evidence.stranger(items) is None:
            found = _reconcile(run, logs, manifest, load)
    except LogDamaged as error:
        damaged = Item("witness log", Standing.CONTRADICTED, str(error), True)
        reasons = (f"the witness log is damaged: {error}",)
        judgement = Judgement(Verdict.INCONCLUSIVE, reasons, (*items, damaged))
    else:
        explained = bool(findings)
        if after.failure and evidence.stranger(items) is None:
            judgement = evidence.judge_unrecoverable(
                after.failure,
                items,
                missing=after.missing,
                explained=explained,
                uncut=_is_gone_uncut(load, after),
            )
        else:
            named = depth.depth.value if depth and depth.depth else ""
            judgement = evidence.judge(found, items, named, explained=explained)
    if manifest.control:
        judgement = judge_control(judgement, found)
    outcome = Outcome(run, manifest, load, after, found, judgement, findings, depth)
    run.write_lines("losses.csv", _loss_lines(outcome))
    run.write_verdict(to_json(outcome))
    return outcome


def _is_gone_uncut(load: LoadRecord | None, after: AfterRecord) -> bool:
    """Say whether no server answers although nobody is known to have cut its power.

    A record that was lost with the client may have told of a cut.
    """
    return after.facts is None and load is not None and load.cut is None


def _items(
    manifest: Manifest,
    load: LoadRecord | None,
    after: AfterRecord,
    depth: DepthFinding | None,
) -> list[Item]:
    at_the_cut = _at_the_cut(load)
    exact = bool(load and load.cut and load.cut.exact_us is not None)
    logs = _logs(after)
    told = [serverlog.told(name, text) for name, text in logs.items()]
    crashed = any(item.standing is Standing.PRESENT for item in told)
    items = [
        evidence.at_risk(at_the_cut),
        evidence.not_shut_down(at_the_cut, after.canary, exact or crashed),
        hostevidence.host_went_down(
            manifest.host,
            after.host,
            depth,
            lab=str(manifest.lab.get("rung", "")),
            silent=load is not None and load.gone == "silent",
        ),
    ]
    items += [
        item
        for item in (
            *told,
            _since_checkpoint(load),
            next(filter(None, map(serverlog.replayed, logs.values())), None),
            hostevidence.same_storage(manifest.host, after.host),
            hostevidence.not_restored(
                manifest.host, after.host, lab=str(manifest.lab.get("rung", ""))
            ),
            hostevidence.unsafe_shutdowns(manifest.host, after.host),
        )
        if item is not None
    ]
    if after.facts is not None:
        before, now = manifest.before, after.facts
        items += [
            evidence.restarted(
                before.started_us,
                before.started_error_us,
                now.started_us,
                now.started_error_us,
            ),
            evidence.same_server(before.identity, now.identity),
            evidence.same_settings(before.settings, *_later(manifest, load, now)),
        ]
    return items


def _logs(after: AfterRecord) -> dict[str, str]:
    """Return what the server logged since the preflight, by where it was read."""
    logs = {}
    if after.host is not None and after.host.log is not None:
        logs["server's log"] = after.host.log.text
    if after.log is not None:
        logs["error log over SQL"] = after.log
    return logs


def _without_power(
    load: LoadRecord | None, restore: RestoreRecord | None, depth: DepthFinding | None
) -> Item | None:
    if load is None or load.cut is None or "off_s" not in load.cut.report:
        return None
    meant = load.cut.report["off_s"]
    return evidence.without_power(
        # What is no number cannot be reached.
        meant if isinstance(meant, int | float) else math.inf,
        restore.off_s if restore else None,
        depth.depth if depth else None,
    )


def _since_checkpoint(load: LoadRecord | None) -> Item | None:
    if load is None or load.log is None:
        return None
    begun, before = ((at.written, at.checkpoint) for at in load.log)
    return evidence.since_checkpoint(begun, before, sum(load.acked.values()))


def _later(
    manifest: Manifest, load: LoadRecord | None, now: ServerFacts
) -> list[tuple[str, Mapping[str, str]]]:
    """Return the settings as they were read again, and when."""
    later = [("after the cut", now.settings)]
    # A control relaxes the server itself where it cannot relax its sessions.
    if load is not None and load.settings is not None and not manifest.control:
        later.insert(0, ("before the cut", load.settings))
    return later


def _at_the_cut(load: LoadRecord | None) -> AtTheCut | None:
    if load is None:
        return None
    return AtTheCut(
        last_ack_us=load.last_ack_us,
        cut_us=_cut_us(load),
        asked=load.cut is not None,
        gone=load.gone,
        in_flight=load.in_flight,
        farewells=load.farewells,
    )


def _cut_us(load: LoadRecord | None) -> int | None:
    """Return the moment of the cut as well as it is known, or None.

    The cut cannot be earlier than the moment at which the switch was told, whatever
    happened to the sessions before.
    """
    if load is None:
        return None
    if load.cut is not None:
        if load.cut.exact_us is not None:
            return load.cut.exact_us
        if load.cut.asked_us is not None:
            return max(load.cut.asked_us, load.gone_us or 0)
    return load.gone_us


def _held_item(facts: Sequence[LogFacts], load: LoadRecord | None) -> Item:
    newest = [one.newest_us for one in facts if one.newest_us is not None]
    return evidence.held_at_the_cut(max(newest, default=None), _cut_us(load))


def _log_item(facts: Sequence[LogFacts], load: LoadRecord | None) -> Item:
    acks, frames = sum(one.acks for one in facts), sum(one.frames for one in facts)
    said = f"{acks:,} acks in {frames:,} frames"
    said += f" of {len(facts)} logs, chains intact" if facts[1:] else ", chain intact"
    if torn := sum(one.torn_bytes for one in facts):
        said += f", a torn tail of {torn} bytes left out"
    if load:
        said += (
            f"; the window was at most {sum(one.acks for one in load.windows):,} acks"
            f" and {max((one.age_s for one in load.windows), default=0):.3f} s"
        )
    return Item("witness log", Standing.PRESENT, said, True)


def _reconcile(
    run: RunFolder, logs: StoredLogs, manifest: Manifest, load: LoadRecord | None
) -> Reconciliation:
    table = manifest.table
    before = Before(
        table.rows_by_epoch, table.row_id_max, table.weights_by_epoch, table.different
    )
    claim = Claim(load.sent, load.acked) if load else None
    if manifest.workload.shape is Shape.CLASSIC:
        return reconcile_ids(
            logs.acks,
            run.survivors,
            before=before,
            claim=claim,
            window_acks=manifest.window_acks,
        )
    return reconcile(
        logs.acks,
        run.survivors,
        epoch=manifest.epoch,
        before=before,
        claim=claim,
        window_acks=manifest.window_acks,
    )


def _loss_lines(outcome: Outcome) -> Iterator[str]:
    """Yield losses.csv: one line for each loss, in the order of the ids."""
    yield "kind,session,seq,row_id,acked_utc,acked_before_cut_s\n"
    if outcome.found is None:
        return
    shift_us = outcome.manifest.wall_us - outcome.manifest.clock_us
    for kind, session, seq, row_id, acked_us in outcome.found.losses.by_id():
        acked = _utc(acked_us + shift_us) if acked_us >= 0 else ""
        before_s = outcome.before_cut_s(acked_us)
        before = "" if before_s is None else f"{before_s:.4f}"
        yield f"{kind.value},{session},{seq},{row_id},{acked},{before}\n"


def _utc(wall_us: int) -> str:
    """Return a moment as ISO 8601, "" if it is none: a log may say anything."""
    try:
        moment = datetime.fromtimestamp(wall_us / 1e6, UTC)
    except (OverflowError, ValueError):
        return ""
    return moment.isoformat(timespec="milliseconds")


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the judged run as plain values, the form that --json prints."""
    load, manifest = outcome.load, outcome.manifest
    return {
        "run": manifest.run_id,
        "control": manifest.control,
        "folder": str(outcome.run.path),
        "verdict": outcome.verdict.value,
        "reasons": list(outcome.judgement.reasons),
        "target": manifest.target,
        "server": f"{manifest.before.product} {manifest.before.version}",
        "workload": manifest.workload.name,
        "sessions": manifest.workload.sessions,
        "seed": manifest.seed,
        "power": manifest.power,
        "witness": {"url": manifest.witness, "kind": manifest.witness_kind},
        "load": msgspec.to_builtins(load, str_keys=True),
        "depth": _depth_json(outcome.depth),
        **_rows_json(outcome.found),
        **_ranges_json(outcome),
        "evidence": [
            {
                "item": item.name,
                "standing": item.standing.value,
                "reason": item.reason,
                "required": item.required,
            }
            for item in outcome.judgement.items
        ],
        "settings_at_fault": [
            f"{finding.rule.fact} = {finding.value}: {finding.rule.why}"
            for finding in outcome.findings
        ],
        "lab": dict(manifest.lab),
    }


def _depth_json(depth: DepthFinding | None) -> dict[str, Any] | None:
    if depth is None:
        return None
    named = depth.depth.value if depth.depth else None
    return {"depth": named, "reasons": list(depth.reasons)}


def _rows_json(found: Reconciliation | None) -> dict[str, Any]:
    names = ("confirmed", "kept", "recovered", "unconfirmed", "foreign", "earlier")
    return {
        **{name: getattr(found, name, None) for name in names},
        "earlier_lost": dict(found.earlier_lost) if found else None,
        "losses": found.counts if found else None,
    }


def _ranges_json(outcome: Outcome) -> dict[str, Any]:
    spans = outcome.found.losses.ranges() if outcome.found else iter(())
    return {
        "ranges": [
            {
                "kind": span.kind.value,
                "first_id": span.first_id,
                "last_id": span.last_id,
                "rows": span.rows,
                "first_acked_before_cut_s": outcome.before_cut_s(span.first_us),
                "last_acked_before_cut_s": outcome.before_cut_s(span.last_us),
            }
            for span in itertools.islice(spans, RANGES_MAX)
        ],
        "ranges_left_out": sum(1 for _ in spans),
    }
