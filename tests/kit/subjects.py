"""Subjects of reports: stored runs and campaigns, and some full of hostile text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from dbcheck.cycle.detail import read_run_detail
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.result import RunDetail, to_values
from dbcheck.judge.results import CampaignsResult
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.explored import ExploreResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.report.subject import RunSubject, Step, Verdicts
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.explored_results import LOST
from tests.kit.memory import scratch
from tests.kit.poisoned_reports import poisoned, poisoned_campaign, poisoned_run
from tests.kit.reports import run_result
from tests.kit.stored_run import manifest, stored_run

# What a page, a ticket or an XML file would obey, beside what a terminal would.
MARKUP = (
    "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\"' onload=x & ]]> <!-- {{ 7*7 }} | [a](b) **b** `c` \x00\x1b[2J\ud800"
)


@cache
def detail() -> RunDetail:
    """Return the detail of the small run that stored_run() stores."""
    with scratch() as folder:
        run = stored_run(RunFolder.create(folder, manifest()))
        reader = FrameLogReader()
        return read_run_detail(judge_run(run, reader), reader)


def poisoned_detail(text: str) -> RunDetail:
    """Return that detail with *text* in each text that a server or a host gave."""
    found = detail()
    node = found.manifest.writer
    host = node.host
    assert host is not None
    volumes = [
        replace(
            volume,
            places={text: text},
            mount_point=text,
            filesystem=text,
            mount_options=text,
            layers=tuple(
                replace(layer, name=text, dm_name=text, backing_file=text)
                for layer in volume.layers
            ),
            drives=tuple(
                replace(drive, name=text, model=text, serial=text)
                for drive in volume.drives
            ),
        )
        for volume in host.facts.volumes
    ]
    facts = replace(host.facts, hostname=text, volumes=tuple(volumes))
    server = replace(node.facts, version=text, settings={text: text, "fsync": text})
    node = replace(node, facts=server, host=replace(host, facts=facts))
    workload = replace(found.manifest.workload, name=text)
    changed = replace(
        found.manifest,
        nodes={ONLY_NODE: node},
        created=text,
        dbcheck=text,
        workload=workload,
    )
    return replace(found, manifest=changed, missing=text)


def poisoned_subjects(text: str) -> dict[str, Verdicts]:
    """Return a subject of each kind with *text* in its foreign texts."""
    result = poisoned_run(text)
    line = Line(text, text, Verdict.FAIL, 2.0, [result], text)
    doubtful = replace(result, verdict=Verdict.INCONCLUSIVE)
    rows = [line, replace(line, error="", cycles=[doubtful])]
    steps = (Step(text, text),)
    campaign = poisoned_campaign(text)
    return {
        "run": RunSubject(result, poisoned_detail(text), text, steps),
        "campaign": CampaignsResult(text, (campaign, replace(campaign, name="db2"))),
        "matrix": make_matrix_result(rows, 1, text, text),
        "explore": poisoned_exploration(text),
    }


def poisoned_exploration(text: str) -> ExploreResult:
    """Return an exploration with *text* in each of its texts."""
    values = poisoned(to_values(LOST), text)
    lab = {"engine": text, "drive": {"personality": text}}
    return msgspec.convert({**values, "lab": lab}, ExploreResult)


def subject_of(verdict: Verdict, **changed: Any) -> RunSubject:
    """Return a run that was judged so; changed: see tests.kit.reports.run_result."""
    values: Mapping[str, Any] = {"verdict": verdict.value, **changed}
    return RunSubject(run_result(values))
