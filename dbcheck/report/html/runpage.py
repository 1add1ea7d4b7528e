"""Values of the page of a run, for its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbcheck.judge.result import RunDetail
from dbcheck.model.verdict import count_of
from dbcheck.report.html.runcharts import figures
from dbcheck.report.html.stack import stacks
from dbcheck.report.lossshape import DIAGNOSIS_TITLE, SHAPE_TITLE, axes
from dbcheck.report.subject import RunSubject
from dbcheck.report.words import run as words

SETTING_COLUMNS = ("before", "just before the cut", "after")
_NOT_KNOWN = "-"


def run_values(subject: RunSubject) -> dict[str, Any]:
    """Return the values of templates/run.html."""
    result, detail = subject.result, subject.detail
    caveats = [*words.caveats(result), *([subject.note] if subject.note else [])]
    return {
        "title": f"{result.verdict.value}: {result.server}, run {result.run}",
        "about": (f"Power-cut check of {result.server}", f"run {result.run}"),
        "result": result,
        "bound": words.bound(result),
        "caveats": caveats,
        "limits": list(words.limits(result)),
        "figures": list(figures(detail)) if detail else [],
        "range_columns": words.RANGE_COLUMNS,
        "ranges": [*map(words.range_cells, result.ranges[: words.RANGES_SHOWN])],
        "ranges_note": words.ranges_note(result) if result.ranges else "",
        "shape_title": SHAPE_TITLE,
        "diagnosis_title": DIAGNOSIS_TITLE,
        "axes": list(axes(result.shape)) if result.shape else [],
        "sections": list(words.sections(result)),
        "run": list(words.facts(result)),
        "stacks": list(stacks(detail.manifest)) if detail else [],
        "setting_columns": SETTING_COLUMNS,
        "settings": list(_settings(subject)),
        "steps": subject.steps,
        "recipe": list(_recipe(detail)) if detail else [],
    }


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; values: in the order of SETTING_COLUMNS."""

    name: str
    values: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether two of the values that are known differ."""
        return len(set(self.values) - {_NOT_KNOWN}) > 1


def _settings(subject: RunSubject) -> Iterator[Setting]:
    """Yield the server's version and its settings, those that changed first."""
    detail, load = subject.detail, subject.result.load
    if detail is None:
        return
    before, after = detail.manifest.writer.facts, detail.after.facts
    at_the_cut = load.settings if load else None
    yield Setting(
        "server",
        (
            f"{before.product} {before.version}",
            _NOT_KNOWN,
            f"{after.product} {after.version}" if after else _NOT_KNOWN,
        ),
    )
    read = (before.settings, at_the_cut or {}, after.settings if after else {})
    names = sorted({name for values in read for name in values})
    found = (Setting(name, _values(name, read)) for name in names)
    yield from sorted(found, key=lambda setting: not setting.changed)


def _values(name: str, read: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(values.get(name, _NOT_KNOWN) for values in read)


def _recipe(detail: RunDetail) -> Iterator[tuple[str, str]]:
    """Yield what decides the rows of the run."""
    manifest = detail.manifest
    yield "begun", manifest.created
    yield "dbcheck", manifest.dbcheck
    yield "seed, epoch", f"{manifest.seed}, {manifest.epoch}"
    workload = manifest.workload
    yield "workload", f"{workload.name}, {count_of(workload.sessions, 'session')}"
    if workload.payload_bytes:
        sizes = ", ".join(f"{size:,}" for size in workload.payload_bytes)
        yield "bytes of payload", sizes
