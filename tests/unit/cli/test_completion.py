"""Completion of words without a shell; tests/real/cli/test_completion.py has shells."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from dbcheck.cli import root as cli
from dbcheck.cli.root import COMPLETE, PROGRAM, VERBS, root


def completed(*words: str) -> list[tuple[str, str]]:
    """Return how the last of *words* may go on, each with its type."""
    shell = ShellComplete(root, {}, PROGRAM, COMPLETE)
    found = shell.get_completions([*words[:-1]], words[-1])
    return [(item.type, item.value) for item in found]


def plain(*values: str) -> list[tuple[str, str]]:
    return [("plain", value) for value in values]


def test_verbs_are_completed_without_importing_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        cli, "_import_module", lambda name: pytest.fail(f"imports {name}")
    )
    assert completed("") == plain(*VERBS)
    assert completed("re") == plain("reconcile", "report")
    assert completed("--v") == plain("--version")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("lab", "u"), plain("up")),
        (("run", "--known-hosts", "x", "--know"), []),  # it is given already
        (("lab", "run", "--engine", "m"), plain("mariadb", "mysql", "myrocks")),
        (("run", "--workload", "mi"), plain("mixed")),
        (("run", "--workload", "./my"), [("file", "./my")]),
        (("matrix", "--preset", "perc"), plain("percona-2009")),
        (("run", "--power", "m"), plain("manual")),
        (("explain", "witness-log-e"), plain("witness-log-exists")),
        (("init", "--switch", "p"), plain("pdudaemon", "proxmox")),
        (("run", "--power", "x"), []),
        (("reconcile", "runs/"), [("file", "runs/")]),
        (("campaign", "--folder", "c"), [("dir", "c")]),
        (("run", ""), []),  # a name of a host
        (("nosuch", "--"), plain("--version", "--help")),
        (("run", "--nosuch", "x", "--lock"), plain("--lockstep")),
        (("run", "--rate", "not a number", "--lock"), plain("--lockstep")),
    ],
)
def test_words_are_completed(
    words: tuple[str, ...], wanted: list[tuple[str, str]]
) -> None:
    assert completed(*words) == wanted


def test_rules_that_have_a_receipt_are_completed() -> None:
    found = completed("audit", "--receipt", "fs-")
    assert ("plain", "fs-barrier") in found
    assert ("plain", "fs-network") not in found
