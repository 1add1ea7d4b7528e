"""Texts of servers, witnesses and stored runs, as they reach a person's terminal."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from dbcheck.cli import USAGE
from dbcheck.cli.root import run
from dbcheck.ports.listener import LoadStatus, Phase
from dbcheck.report.console import make_console
from dbcheck.report.live import LiveProgress
from dbcheck.report.progress import PlainProgress
from tests.kit.poisoned_reports import REPORTS, shown
from tests.kit.reports import EVIL, is_harmless


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
    assert "\x1b[1;37;42m PASS \x1b[0m\x1b[1m  \\x1blost\\x1b.\x1b[0m" in text


@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_progress_shows_what_a_terminal_would_obey(kind: type[PlainProgress]) -> None:
    file = io.StringIO()
    terminal = make_console(file=file, width=300)
    view = kind(terminal)
    view.line(EVIL, EVIL)
    view.phase(Phase.CUT, EVIL)
    view.load(LoadStatus(1.0, 10, 5, 3.0, {}, 2, 0.0))
    view.phase(Phase.GONE, EVIL)
    view.ask(EVIL)
    if isinstance(view, LiveProgress):
        terminal.print(view._draw())
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


def test_a_terminal_without_columns_is_shown_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    make_console().print("1 row is missing")
    assert capsys.readouterr().out == "1 row is missing\n"
