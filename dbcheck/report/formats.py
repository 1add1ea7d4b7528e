"""Formats of a report: their names, the suffixes of their files, and what writes each.

Texts for people are here; the other formats have modules of their own, which are
imported once a report is written in them.
"""

from __future__ import annotations

import importlib
import io
import json
from dataclasses import dataclass

from rich.console import RenderableType

from dbcheck.judge.checks import HistoryResult
from dbcheck.judge.result import to_values
from dbcheck.judge.results import ComparedResult, MatrixResult
from dbcheck.model.explored import ExploreResult
from dbcheck.report.campaign import draw_campaigns, draw_comparison, draw_history
from dbcheck.report.console import make_console
from dbcheck.report.explore import draw_exploration
from dbcheck.report.matrix import draw_matrix
from dbcheck.report.subject import RunSubject, Subject
from dbcheck.report.verdict import verdict_report

_COLUMNS = 100  # of a text file


@dataclass(frozen=True, slots=True)
class Format:
    """A format that --format names.

    suffixes: of the files that get it unless --format says otherwise.
    help:     who or what reads it, for the help of --format.
    function: "module:function" in dbcheck.report, which returns the text for a Subject.
    needs_verdict: True if the function takes only what has verdicts of its own.
    """

    name: str
    suffixes: tuple[str, ...]
    help: str
    function: str
    needs_verdict: bool = False


_LISTED = (
    Format("text", (".txt",), "for a terminal", "formats:format_text"),
    Format("html", (".html", ".htm"), "one page, for a browser", "html.page:as_html"),
    Format("md", (".md",), "Markdown, for a ticket", "markdown:format_markdown"),
    Format("junit", (".xml",), "for CI", "junit:format_junit", needs_verdict=True),
    Format("json", (".json",), "as --json prints it", "formats:format_json"),
    Format(
        "prometheus",
        (".prom",),
        "for node exporter's textfile collector",
        "prometheus:format_metrics",
        needs_verdict=True,
    ),
)
FORMATS = {each.name: each for each in _LISTED}


def format_report(subject: Subject, name: str) -> str:
    """Return the report in the format of that name."""
    module, function = FORMATS[name].function.split(":")
    written = getattr(importlib.import_module(f"dbcheck.report.{module}"), function)
    return str(written(subject))


def draw_subject(subject: Subject) -> RenderableType:
    """Return the report for a console."""
    if isinstance(subject, RunSubject):
        return verdict_report(subject.result)
    if isinstance(subject, MatrixResult):
        return draw_matrix(subject)
    if isinstance(subject, ComparedResult):
        return draw_comparison(subject)
    if isinstance(subject, ExploreResult):
        return draw_exploration(subject)
    if isinstance(subject, HistoryResult):
        return draw_history(subject)
    return draw_campaigns(subject)


def format_text(subject: Subject) -> str:
    """Return the report as a terminal of 100 columns shows it."""
    with io.StringIO() as written:
        make_console(file=written, width=_COLUMNS).print(draw_subject(subject))
        return written.getvalue()


def format_json(subject: Subject) -> str:
    """Return a result as --json prints it."""
    values = to_values(subject.result if isinstance(subject, RunSubject) else subject)
    return json.dumps(values, indent=1) + "\n"
