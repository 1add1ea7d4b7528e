"""A report as one HTML file, which needs no network and no script.

Jinja2 escapes every text; nothing that a server or a host reported becomes markup.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import dbcheck
from dbcheck.judge.results import CampaignsResult
from dbcheck.report.html.campaignpage import campaign_values
from dbcheck.report.html.matrixpage import matrix_values
from dbcheck.report.html.runpage import run_values
from dbcheck.report.subject import RunSubject, Subject, harmless


def as_html(subject: Subject) -> str:
    """Return the report as the text of an HTML file."""
    subject = harmless(subject)
    if isinstance(subject, RunSubject):
        return _page("run", run_values(subject))
    if isinstance(subject, CampaignsResult):
        return _page("campaign", campaign_values(subject))
    return _page("matrix", matrix_values(subject))


def _page(name: str, values: dict[str, Any]) -> str:
    template = _templates().get_template(f"{name}.html")
    return template.render(values, asset=_asset, version=dbcheck.__version__)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("dbcheck.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> Markup:
    """Return a file of assets/, which is dbcheck's own or comes with it."""
    files = importlib.resources.files("dbcheck.report.html").joinpath("assets")
    return Markup(files.joinpath(name).read_text("utf-8"))
