"""A judged run, and the plain values that --json prints of it."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass
from typing import Any

import msgspec

from dbcheck import stored
from dbcheck.campaign.cutmoment import cut_us
from dbcheck.campaign.settings import Settings
from dbcheck.core.depth import DepthFinding
from dbcheck.core.evidence import Judgement, Standing, Verdict
from dbcheck.core.indexloss import IndexLoss
from dbcheck.core.moments import missed
from dbcheck.core.reconcile import Reconciliation
from dbcheck.core.records import AfterRecord
from dbcheck.core.statistics import Tally
from dbcheck.core.writecache import WRITE_CACHE
from dbcheck.runs import LoadRecord, Manifest, RunFolder

RANGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """A judged run.

    found:    None if the server did not come back or the log is damaged.  If it took
              no queries in its time (after.unanswered), nothing is final.
    settings: those that are not safe, and what they explain.
    depth:    how deep the cut went, None if it was not measured.
    spared:   the page cache survived the cut on every volume.
    """

    run: RunFolder
    manifest: Manifest
    load: LoadRecord | None
    after: AfterRecord
    found: Reconciliation | None
    judgement: Judgement
    settings: Settings
    depth: DepthFinding | None
    spared: bool

    @property
    def verdict(self) -> Verdict:
        """The verdict alone."""
        return self.judgement.verdict

    @property
    def witness_alone(self) -> str:
        """Why the verdict rests on the witness's word alone, "" if it does not.

        It does unless the client's own record of its load says what the witness must
        hold, and a key or the run folder shows that the record is the client's.
        """
        recalled = self.run.recalled()
        if recalled.manifest:
            return (
                "another client made this run, and no key is here that would show what"
                " the witness has changed"
            )
        if recalled.load:
            return (
                "no key is here that would show that the client's record of the load is"
                " unchanged"
            )
        if self.load is None:
            return (
                "the client's record of the load is missing: the client ended before it"
                " could leave one, or the witness removed it"
            )
        return ""

    def before_cut_s(self, acked_us: int) -> float | None:
        """Return how long before the cut an ack came, None if that is not known.

        A reply that was on its way at the cut is read after it; that counts as 0.
        """
        went_us = cut_us(self.load)
        if went_us is None or acked_us < 0:
            return None
        return max(0, went_us - acked_us) / 1e6


def missed_stratum(outcome: Outcome) -> str:
    """Return why the cut did not come in the stratum drawn for it, "" if it did."""
    drawn, load = outcome.manifest.moment, outcome.load
    if drawn is None:
        return ""
    if load is None:
        return missed(drawn.stratum, None, None)
    went_us, refused = cut_us(load), load.no_checkpoint
    return missed(drawn.stratum, load.due_us, went_us, refused, load.last_ack_us)


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the judged run as plain values, the form that --json prints."""
    load, manifest = outcome.load, outcome.manifest
    lost = outcome.verdict is Verdict.FAIL
    return {
        "run": manifest.run_id,
        "control": manifest.control,
        "folder": str(outcome.run.path),
        "stored": stored.may_write(outcome.run.path),
        "verdict": outcome.verdict.value,
        "reasons": list(outcome.judgement.reasons),
        "final": not outcome.after.unanswered,
        "target": manifest.target,
        "server": f"{manifest.before.product} {manifest.before.version}",
        "workload": manifest.workload.name,
        "sessions": manifest.workload.sessions,
        "seed": manifest.seed,
        "power": manifest.power,
        "cut_class": manifest.cut_class.value,
        "class_assumed": manifest.class_assumed,
        **_witness_json(outcome),
        "load": msgspec.to_builtins(load, str_keys=True),
        **_proof_json(outcome),
        **_rows_json(outcome.found, outcome.after.index),
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
            finding.sentence for finding in outcome.settings.at_fault(lost=lost)
        ],
        "layers_at_fault": [
            item.reason
            for item in outcome.judgement.items
            if item.name == WRITE_CACHE
            and item.standing in (Standing.ABSENT, Standing.CONTRADICTED)
        ],
        "other_settings": [
            finding.sentence for finding in outcome.settings.others(lost=lost)
        ],
        "left_on_host": _left_on_host(outcome),
        "lab": dict(manifest.lab),
        "image": _image(outcome),
    }


def _image(outcome: Outcome) -> str:
    """Return where the drive of a run that did not pass is kept, "" if it is not."""
    image = outcome.run.image_path
    kept = outcome.verdict is not Verdict.PASS and image.is_file()
    return str(image) if kept else ""


def _witness_json(outcome: Outcome) -> dict[str, Any]:
    """Return where the acks were logged, and whether all rests on that alone."""
    manifest, why = outcome.manifest, outcome.witness_alone
    return {
        "witness": {"url": manifest.witness, "kind": manifest.witness_kind},
        "witness_alone": bool(why),
        "witness_alone_why": why,
    }


def _left_on_host(outcome: Outcome) -> dict[str, str] | None:
    """Return where the canaries still lie on the target's host, None if nowhere."""
    before, after = outcome.manifest.host, outcome.after
    if before is None or after.unanswered or (after.host and not after.host.left):
        return None
    if not after.host and outcome.run.recalled().manifest:
        return None  # a command with names that the witness chose
    folders = after.host.left if after.host else before.canary_folders
    command = shlex.join(["rm", "-r", "--", *folders])
    return {"host": before.facts.hostname, "command": command}


def _proof_json(outcome: Outcome) -> dict[str, Any]:
    """Return the depth of this one cut, and what it proves.

    A control's proves nothing, as it was to lose.
    """
    depth = outcome.depth
    named = depth.depth.value if depth and depth.depth else None
    proven = Tally.of([(outcome.verdict, named or "")]).to_values()
    return {
        "depth": {"depth": named, "reasons": list(depth.reasons)} if depth else None,
        "page_cache_kept": outcome.spared,
        "statistics": None if outcome.manifest.control else proven,
    }


def _rows_json(found: Reconciliation | None, index: IndexLoss | None) -> dict[str, Any]:
    other = index.counts if index else {}
    names = ("confirmed", "kept", "recovered", "unconfirmed", "foreign", "earlier")
    return {
        **{name: getattr(found, name, None) for name in (*names, "earlier_altered")},
        "earlier_lost": dict(found.earlier_lost) if found else None,
        "losses": {**found.own_counts, **other} if found else None,
        "earlier_losses": found.earlier_counts if found else None,
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
