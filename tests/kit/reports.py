"""A report as a person sees it, and text that attacks a terminal."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console, RenderableType

from dbcheck.judge.result import RunResult
from tests.kit.samples import LOAD


def printed(report: RenderableType, columns: int = 400) -> str:
    """Return what a person sees of a report, on a terminal of that width."""
    file = io.StringIO()
    Console(file=file, width=columns).print(report)
    return file.getvalue()


# Clears the screen, fills the clipboard, forges a line, permit the text around; markup
# that rich refuses, a colour of its, an emoji.
EVIL = (
    "\x1b[2J\x1b]52;c;cm0gLXJmIH4=\x07\r\n PASS \x9b31m\u202e[/nope][bold]x[/]:warning:"
)


def is_harmless(text: str) -> bool:
    """Say whether a terminal does no more with *text* than to show it, in lines."""
    return not any(
        ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text.replace("\n", "")
    )


_WITNESS = {"url": "ssh://w/acks", "kind": "ssh"}
VALUES: Mapping[str, Any] = {
    **{"run": "1", "control": False, "folder": "runs/1", "stored": True},
    **{"verdict": "PASS", "reasons": ["all kept"], "final": True},
    **{"target": "postgresql://db1/dbcheck", "server": "PostgreSQL 15"},
    **{"workload": "insert", "sessions": 1, "seed": 1, "power": "exec"},
    **{"cut_class": "AC", "class_assumed": False, "witness": _WITNESS},
    **{"witness_alone": False, "witness_alone_why": "", "load": None, "depth": None},
    **{"page_cache_kept": False, "statistics": None, "confirmed": None, "kept": None},
    **{"recovered": None, "unconfirmed": None, "foreign": None, "earlier": None},
    **{"earlier_altered": None, "earlier_lost": None, "losses": {}},
    **{"earlier_losses": {}, "ranges": [], "ranges_left_out": 0, "evidence": []},
    **{"shape": None, "diagnosis": []},
    **{"settings_at_fault": [], "layers_at_fault": [], "other_settings": []},
    **{"left_on_host": None, "lab": {}, "image": ""},
}
_MEMBER: Mapping[str, Any] = {
    "settings": {},
    "awaited": None,
    "cut": False,
    "compared": None,
}
# Three servers, of which the first was cut and the second took over.
CLUSTER: Mapping[str, Any] = {
    **{"writer": "n1", "standbys": ["n2", "n3"], "read": "n2"},
    **{"promise": "writer-gone", "stagger_s": 0.0, "promoted_by": "sql"},
    **{"left": {"n1": {"behind": 3, "extra": 1}}, "left_failed": {}, "rejoined": {}},
    "topology": "streaming",
    "members": {
        "n1": {**_MEMBER, "settings": {"synchronous_commit": "on"}, "cut": True},
        "n2": {**_MEMBER, "awaited": True},
        "n3": {**_MEMBER, "awaited": False},
    },
}
_LOAD = msgspec.to_builtins(LOAD, str_keys=True)


def run_result(changed: Mapping[str, Any]) -> RunResult:
    """Return the result of a run with those values, as --json prints them.

    Of its load, of a depth and of evidence only what is of interest need be given.
    """
    values = {**VALUES, **changed}
    if values["load"] is not None:
        values["load"] = {**_LOAD, **values["load"]}
    if values["depth"] is not None:
        values["depth"] = {"reasons": [], **values["depth"]}
    return msgspec.convert(values, RunResult, str_keys=True)
