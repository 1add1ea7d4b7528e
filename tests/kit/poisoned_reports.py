"""Every report with a text of a test's in each of its places."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from rich.console import RenderableType

from dbcheck.audit.result import AuditResult, FactResult, FindingResult, SubjectResult
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.rules import list_all_rules
from dbcheck.campaign import totals
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.config.workload_file import load
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.result import RunResult, to_values
from dbcheck.judge.results import (
    CampaignResult,
    CampaignsResult,
    DemoRow,
    GroupResult,
    ReceiptResult,
)
from dbcheck.model.audited import RuleStatus, Severity
from dbcheck.model.flushes import Method
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.probe.flushes import Outcome
from dbcheck.probe.flushes_result import DeviceResult, FlushesResult, VolumeResult
from dbcheck.probe.latency import (
    Bucket,
    Earlier,
    FileioResult,
    FolderResult,
    LatencyResult,
    Spread,
    TimingResult,
)
from dbcheck.report.audit import draw_audits, draw_receipt
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.console import make_console
from dbcheck.report.flushes import draw_all_flushes
from dbcheck.report.latency import draw_latencies
from dbcheck.report.matrix import draw_cycles, draw_demo, draw_matrix
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.report.verdict import verdict_report
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.memory import scratch
from tests.kit.reports import CLUSTER
from tests.kit.stored_run import manifest, stored_run

# What the reports choose a style or a sentence by; no server says it.
WORDS = {
    *("verdict", "status", "cut_class", "depth", "cut", "kept_writes", "item"),
    *("at_cut", "done", "task", "power_scope"),
    *("gone", "ranges", "cause", "severity", "subject_kind"),
    *("promise", "promoted_by", "topology"),
    *("latency_ms", "losses", "earlier_losses", "acked", "activities", "cut_classes"),
}


def poisoned(value: Any, text: str) -> Any:
    """Return a result with *text* before and after each text that is foreign."""
    if isinstance(value, str):
        return f"{text}{value}{text}"
    if isinstance(value, Mapping):
        return {k: v if k in WORDS else poisoned(v, text) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [poisoned(item, text) for item in value]
    return value


WINDOW = {"task": "drop", "tasks": 2, "hit": 1, "acked": 3, "lost": 2}
SHAPE = {
    **{"by_age": [{"up_to": 1.0, "acked": 3, "lost": 2}], "by_size": []},
    **{"by_window": [WINDOW]},
    **{"by_table": {"ledger": 2, "item": 0}, "oldest_s": 1.0},
    **{"missing": 2, "reordered": 1},
}
EXPLANATION = {"cause": "lost cache", "losses": 2, "reason": "because"}


def results() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the result of a run with losses and advice, and that of a campaign."""
    with scratch() as folder:
        stored = stored_run(RunFolder.create(folder, manifest()))
        result = to_values(judge_run(stored, FrameLogReader()).result)
        plan = ("t", "0", "n", "url", 1, load("insert"), 3, 9, None, False, True)
        campaign = CampaignFolder.create(folder / "c", CampaignPlan(*plan))
        campaign.add(
            Cycle(
                1, "id", "steady", 1.0, CycleVerdict.PASS, "kept", "e", "OS", 8, 0, 1.5
            )
        )
        shown = to_values(totals.make_result(campaign))
    span = {
        **{"kind": "missing-tail", "table": "ledger"},
        **{"first_id": 1, "last_id": 2, "rows": 2},
        **{"first_acked_before_cut_s": 1.0, "last_acked_before_cut_s": 0.5},
    }
    more = {
        **{"reasons": ["lost", "more"], "final": False, "ranges": [span]},
        "audit": [
            {
                **{"rule": "r", "severity": "error", "status": "unsafe"},
                **{"subject": "s", "fact": "f", "value": "v"},
            }
        ],
        **{"settings_at_fault": ["s"], "layers_at_fault": ["l"], "image": "i"},
        **{"shape": SHAPE, "diagnosis": [EXPLANATION]},
        "load": {**result["load"], "lost_early": [3], "refusals": ["deadlock"]},
        "cluster": CLUSTER,
        **{"other_settings": ["o"], "left_on_host": {"host": "h", "command": "rm"}},
    }
    told = {**shown, "error": "why"}
    told["cycles"] = [
        {**cycle, "verdict": "FAIL", "missed": "m", "settings_at_fault": ["f"]}
        for cycle in shown["cycles"]
    ]
    return {**result, **more}, told


RESULT, CAMPAIGN = results()
LINE = Line("name", "elsewhere", Verdict.FAIL, 2.0, [], "error")


def poisoned_run(text: str) -> RunResult:
    return msgspec.convert(poisoned(RESULT, text), RunResult, str_keys=True)


def poisoned_campaign(text: str) -> CampaignResult:
    return msgspec.convert(poisoned(CAMPAIGN, text), CampaignResult, str_keys=True)


def poisoned_audit(text: str) -> AuditResult:
    findings = tuple(
        FindingResult(
            rule=text,
            severity=Severity.ERROR,
            status=status,
            subject_kind=SubjectKind.DRIVE,
            subject=text,
            fact=text,
            why=text,
            fix=text,
            source=text,
            read_by=text,
            unread=text,
            remedy=text,
            value=value,
            safe=(text,),
            unsafe=(text,),
        )
        for status, value in (
            (RuleStatus.UNSAFE, text),
            (RuleStatus.UNKNOWN, None),
        )
    )
    facts = {name: FactResult(text, text, text) for name in ("model", "firmware")}
    subject = SubjectResult(SubjectKind.DRIVE, text, facts)
    return AuditResult(text, text, text, text, findings, 1, (subject,))


def poisoned_probe(text: str) -> FlushesResult:
    device = DeviceResult(text, text, False, text, True, 1, 1, 1, 1, 1, 1, 1)
    volume = VolumeResult(
        places=(text,),
        mount_point=text,
        filesystem=text,
        outcome=Outcome.MISSING,
        sentence=text,
        file_outcome=Outcome.FLUSHED,
        file_sentence=text,
        stopped_at=text,
        devices=(device,),
    )
    return FlushesResult(text, text, text, text, 1, 1, 1, 1, (volume,))


def poisoned_latency(text: str) -> LatencyResult:
    spread = Spread(1, 1.0, 1.0, 1.0, 1.0)
    shares = {text: 0.5}
    timings = (
        TimingResult(Method.FDATASYNC, 8192, 0, spread, shares, ""),
        TimingResult(Method.DIRECT, 8192, 0, None, {}, text),
    )
    folder = FolderResult(
        places=(text,),
        folder=text,
        mount_point=text,
        filesystem=text,
        drives=(text,),
        timings=timings,
        histogram=(Bucket(1.0, 2.0, 1),),
        fileio=(FileioResult.of(1, True, "", text),),
        advice=text,
        earlier=(Earlier(text, 1.0, 1.0),),
    )
    failed = LatencyResult(text, text, text, (), text, text)
    return replace(failed, folders=(folder,), error="")


def matrix_of(text: str) -> RenderableType:
    result = poisoned_run(text)
    line = replace(LINE, name=text, reference=text, error=text, cycles=[result])
    doubtful = replace(
        line, error="", cycles=[replace(result, verdict=Verdict.INCONCLUSIVE)]
    )
    return draw_matrix(make_matrix_result([line, doubtful], 1, text, text))


def poisoned_fleet(text: str) -> CampaignsResult:
    """Return two targets, and their group, whose every text is *text*."""
    one = poisoned_campaign(text)
    group = GroupResult((text,), text, (text,), {text: text}, (text,), one.statistics)
    return CampaignsResult(text, (one, one), (group,))


REPORTS: dict[str, Callable[[str], RenderableType]] = {
    "verdict": lambda text: verdict_report(poisoned_run(text)),
    "campaign": lambda text: draw_campaigns(poisoned_fleet(text)),
    "cycles": lambda text: draw_cycles([poisoned_run(text)] * 2, [poisoned_run(text)]),
    "demo": lambda text: draw_demo([DemoRow(text, Verdict.PASS, poisoned_run(text))]),
    "matrix": matrix_of,
    "audit": lambda text: draw_audits([poisoned_audit(text)] * 2),
    "probe": lambda text: draw_all_flushes([poisoned_probe(text)] * 2),
    "latency": lambda text: draw_latencies([poisoned_latency(text)] * 2),
    "receipt": lambda text: draw_receipt(
        list_all_rules()[0], [ReceiptResult(text, text, True, 1, text, text, text)]
    ),
}


def shown(report: RenderableType, **given: Any) -> str:
    """Return what dbcheck prints of a report."""
    with io.StringIO() as file:
        make_console(file=file, **{"width": 2000, **given}).print(report)
        return file.getvalue()
