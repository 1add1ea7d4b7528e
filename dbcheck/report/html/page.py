"""A report as one HTML file, which loads nothing and has no script.

Jinja2 escapes every text; nothing that a server or a host reported becomes markup.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import dbcheck
from dbcheck.judge.results import CampaignsResult, ComparedResult, MatrixResult
from dbcheck.report.html.campaignpage import campaign_values
from dbcheck.report.html.matrixpage import make_matrix_values
from dbcheck.report.html.runpage import run_values
from dbcheck.report.subject import RunSubject, Subject, quote_all_texts
from dbcheck.report.words import compare as words


def as_html(subject: Subject) -> str:
    """Return the report as the text of an HTML file."""
    subject = quote_all_texts(subject)
    if isinstance(subject, RunSubject):
        return _page("run", run_values(subject))
    if isinstance(subject, CampaignsResult):
        return _page("campaign", campaign_values(subject))
    if isinstance(subject, MatrixResult):
        return _page("matrix", make_matrix_values(subject))
    return _page("compare", _compare_values(subject))


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
