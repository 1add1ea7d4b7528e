"""A report as one HTML file, which loads nothing and has no script.

Jinja2 escapes every text; nothing that a server or a host reported becomes markup.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import dbcheck
from dbcheck.judge.checks import HistoryResult
from dbcheck.judge.results import CampaignsResult, ComparedResult, MatrixResult
from dbcheck.model.explored import ExploreResult
from dbcheck.model.golive import GoLiveResult
from dbcheck.report.html.campaignpage import campaign_values
from dbcheck.report.html.golivepage import make_golive_values
from dbcheck.report.html.historypage import make_history_values
from dbcheck.report.html.matrixpage import make_matrix_values
from dbcheck.report.html.runpage import run_values
from dbcheck.report.subject import RunSubject, Subject, quote_all_texts
from dbcheck.report.words import compare as words
from dbcheck.report.words import explored as of_explored
from dbcheck.report.words.run import sentence


def as_html(subject: Subject) -> str:
    """Return the report as the text of an HTML file."""
    subject = quote_all_texts(subject)
    if isinstance(subject, RunSubject):
        return _page("run", run_values(subject))
    if isinstance(subject, CampaignsResult):
        return _page("campaign", campaign_values(subject))
    if isinstance(subject, MatrixResult):
        return _page("matrix", make_matrix_values(subject))
    if isinstance(subject, ExploreResult):
        return _page("explore", _explore_values(subject))
    if isinstance(subject, HistoryResult):
        return _page("history", make_history_values(subject))
    return _page("compare", _compare_values(subject))


def _explore_values(result: ExploreResult) -> dict[str, Any]:
    """Return the values of templates/explore.html."""
    name = of_explored.describe_lab_server(result.lab)
    return {
        "title": f"{result.verdict.value}: crash states of {name}",
        "about": (f"Crash states of {name}", f"seed {result.seed}"),
        "summary": of_explored.summarize_exploration(result),
        "result": result,
        "how_it_fails": of_explored.how_it_fails,
        "describe_state": of_explored.describe_state,
        "block_columns": of_explored.BLOCK_COLUMNS,
        "blocks": lambda lost: [of_explored.blocks_of(block) for block in lost],
        "not_reduced": of_explored.not_reduced(result),
        "coverage": list(of_explored.coverage_sentences(result)),
        "commands": list(of_explored.list_commands(result)),
        "scope": sentence(of_explored.SCOPE.removeprefix("Scope: ")),
    }


def format_golive_page(result: GoLiveResult) -> str:
    """Return the page of a go-live check, to be signed, as the text of an HTML file."""
    return _page("golive", make_golive_values(quote_all_texts(result)))


def _compare_values(result: ComparedResult) -> dict[str, Any]:
    """Return the values of templates/compare.html."""
    return {
        "title": "Two checks compared",
        "about": (f"A: {result.a.target}", f"B: {result.b.target}"),
        "summary": words.summarize_comparison(result),
        "columns": ("what", *words.COLUMNS[1:]),
        "rows": list(words.rows(result)),
        "findings": list(words.findings(result)),
        "differences": list(words.differences(result)),
        "same": words.same(result),
    }


def _page(name: str, values: dict[str, Any]) -> str:
    template = _templates().get_template(f"{name}.html")
    return template.render(values, version=dbcheck.__version__)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("dbcheck.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
