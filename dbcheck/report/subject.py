"""Subjects of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from dbcheck.base.decoding import convert
from dbcheck.base.text import quoted
from dbcheck.judge.checks import HistoryResult
from dbcheck.judge.result import RunDetail, RunResult
from dbcheck.judge.results import CampaignsResult, ComparedResult, MatrixResult
from dbcheck.model.explored import ExploreResult

T = TypeVar("T")
NOT_JUDGED_AGAIN = (
    "A campaign keeps no rows of a cycle that passed, so this is the verdict as it was"
    " stored; the rows were not judged again."
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command that a reader can type, and what it does."""

    what: str
    command: str


@dataclass(frozen=True, slots=True)
class RunSubject:
    """One run.

    detail: None if nothing but the result is known, as of a run in a matrix.
    note:   how the result was obtained where that is not obvious, "" if it is.
    steps:  how to judge the run again, and how to make another one like it.
    """

    result: RunResult
    detail: RunDetail | None = None
    note: str = ""
    steps: tuple[Step, ...] = ()


# What has verdicts of its own; and what else can be shown.
Verdicts = RunSubject | CampaignsResult | MatrixResult | ExploreResult
Subject = Verdicts | ComparedResult | HistoryResult


def quote_all_texts(subject: T) -> T:
    """Return *subject* with every text as base.text.quoted() shows it.

    Servers, hosts and forged files may hold any character, and a browser or a terminal
    obeys some of them, while XML cannot hold them at all.
    """
    values = msgspec.to_builtins(subject, str_keys=True)
    return convert(_quote_value(values), type(subject), str_keys=True)


def _quote_value(value: Any) -> Any:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return {_quote_value(key): _quote_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_quote_value(each) for each in value]
    return value
