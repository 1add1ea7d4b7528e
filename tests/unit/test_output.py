"""Texts of servers, witnesses and stored runs, as they reach a person's terminal."""

from __future__ import annotations

import io
import sys
from typing import Any

import msgspec
import pytest

from dbcheck.cli import USAGE, output
from dbcheck.cli.root import run
from dbcheck.core.verdict import Verdict
from dbcheck.judge.result import RunResult
from dbcheck.ports.listener import LoadStatus
from dbcheck.report.progress import LiveProgress, PlainProgress
from tests.kit.poisoned_reports import REPORTS, shown
from tests.kit.reports import EVIL, is_harmless
<<<<<<< HEAD
from tests.kit.stored_run import manifest, stored_run

# What the reports choose a style or a sentence by; no server says it.
WORDS = {
    *("verdict", "standing", "cut_class", "depth", "rung", "survivors", "item"),
    *("gone", "ranges"),
    *("latency_ms", "losses", "earlier_losses", "acked", "strata", "cut_classes"),
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


def results() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the result of a run with losses and advice, and that of a campaign."""
    with scratch() as folder:
        stored = stored_run(RunFolder.create(folder, manifest()))
        result = to_json(judge_run(stored, FrameLogReader()))
        plan = ("t", "0", "n", "url", 1, load("insert"), 3, 9, None, False, True)
        campaign = CampaignFolder.create(folder / "c", Plan(*plan))
        campaign.add(
            Cycle(1, "id", "steady", 1.0, "PASS", "kept", "e", "OS", 8, 0, 1.5)
        )
        shown = campaign_run.result(campaign)
    span = {
        **{"kind": "missing-tail", "first_id": 1, "last_id": 2, "rows": 2},
        **{"first_acked_before_cut_s": 1.0, "last_acked_before_cut_s": 0.5},
    }
    more = {
        **{"reasons": ["lost", "more"], "final": False, "ranges": [span]},
        **{"settings_at_fault": ["s"], "layers_at_fault": ["l"], "image": "i"},
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


def matrix_of(text: str) -> RenderableType:
    result = poisoned_run(text)
    line = replace(LINE, name=text, reference=text, error=text, cycles=[result])
    doubtful = replace(
        line, error="", cycles=[replace(result, verdict=Verdict.INCONCLUSIVE)]
    )
    return matrix_report([line, doubtful], text, text)


REPORTS: dict[str, Callable[[str], RenderableType]] = {
    "verdict": lambda text: verdict_report(poisoned_run(text)),
    "campaign": lambda text: campaigns_report(text, [poisoned(CAMPAIGN, text)]),
    "cycles": lambda text: cycles_report(
        [poisoned_run(text)] * 2, [poisoned_run(text)]
    ),
    "demo": lambda text: demo_table([({"case": text}, poisoned_run(text))]),
    "matrix": matrix_of,
}


def shown(report: RenderableType, **given: Any) -> str:
    """Return what dbcheck prints of a report."""
    with io.StringIO() as file:
        output.console(file=file, **{"width": 2000, **given}).print(report)
        return file.getvalue()
=======
>>>>>>> tests


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_shows_what_a_terminal_would_obey(name: str) -> None:
    text = shown(REPORTS[name](EVIL))
    assert is_harmless(text)
    assert "\u202e" not in text
    for part in (r"\x1b[2J\x1b]52;c;cm0gLXJmIH4=", r"\x9b31m\u202e[/nope][bold]x[/]:"):
        assert part in text
    assert not [line for line in text.splitlines() if line.startswith(" PASS \\x9b")]


def test_a_text_by_itself_is_searched_for_no_markup() -> None:
    assert shown("[/nope] [bold]x[/] :warning:") == "[/nope] [bold]x[/] :warning:\n"


def test_the_styles_of_a_text_stay_on_its_characters() -> None:
    text = shown(
        REPORTS["verdict"]("\x1b"), force_terminal=True, color_system="standard"
    )
    assert "\x1b[1;37;42m PASS \x1b[0m\x1b[1m  \\x1blost\\x1b\x1b[0m" in text


@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_progress_shows_what_a_terminal_would_obey(kind: type[PlainProgress]) -> None:
    file = io.StringIO()
    console = output.console(file=file, width=300)
    view = kind(console)
    view.line(EVIL, EVIL)
    view.phase("cut", EVIL)
    view.load(LoadStatus(1.0, 10, 5, 3.0, {}, 2, 0.0))
    view.phase("gone", EVIL)
    view.ask(EVIL)
    if isinstance(view, LiveProgress):
        console.print(view._draw())
    text = file.getvalue()
    assert is_harmless(text)
    assert text.count(r"\r\n PASS \x9b31m\u202e[/nope]") == 5
    assert not [line for line in text.splitlines() if line.startswith(" PASS")]


@pytest.mark.parametrize(
    "words",
    [
        ("power", "state", EVIL, "--inventory", f"/{EVIL}"),
        ("run", "name", EVIL),
    ],
)
def test_errors_show_what_a_terminal_would_obey(
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["dbcheck", *words])
    assert run() == USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert is_harmless(said.err)
    assert r"\x1b[2J" in said.err
    assert not [line for line in said.err.splitlines() if line.startswith(" PASS")]


def test_a_traceback_shows_what_a_terminal_would_obey(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: Any) -> None:
        raise ZeroDivisionError(EVIL)

    monkeypatch.setattr("dbcheck.cli.root.root.main", fail)
    run()
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert is_harmless(said)
