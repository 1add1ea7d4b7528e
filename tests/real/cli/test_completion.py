"""bash, zsh and fish complete what is typed, by the script that dbcheck prints."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.cli.root import VERBS
from tests.kit.terminal import Terminal

BIN = Path(sys.executable).parent
# What is typed -> what it is completed to.
WORDS = {
    "dbcheck camp": "dbcheck campaign",
    "dbcheck lab inv": "dbcheck lab inventory",
    "dbcheck lab run --eng": "dbcheck lab run --engine",
    "dbcheck lab run --engine mar": "dbcheck lab run --engine mariadb",
    "dbcheck run --rate 5 --sil": "dbcheck run --rate 5 --silence",
    "dbcheck report a --format prom": "dbcheck report a --format prometheus",
    "dbcheck run --workload ord": "dbcheck run --workload order-entry",
    "dbcheck run --workload my": "dbcheck run --workload my-own.toml",
    "dbcheck verify som": "dbcheck verify some.dbcheck.tar",
    "dbcheck demo --runs fol": "dbcheck demo --runs folder",
    "dbcheck audit --receipt my-sy": "dbcheck audit --receipt my-sync-binlog",
    "dbcheck completion z": "dbcheck completion zsh",
}
START = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
}
# Typed first.
SETUP = {
    "bash": "source ./script; bind 'set enable-bracketed-paste off'\r",
    "zsh": "bindkey -e; autoload -Uz compinit; compinit -D -u; source ./script\r",
}
PROMPT = "what now? "  # shown when the shell reads what is typed, and not before
BEGINNING_OF_LINE = "\x01"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files, and with an inventory that shows that it was run."""
    (tmp_path / "folder").mkdir()
    for name in ("my-own.toml", "some.dbcheck.tar"):
        (tmp_path / name).touch()
    inventory = tmp_path / "inventory.yml"
    inventory.write_text("#!/bin/sh\ntouch was-run\necho {}\n")
    inventory.chmod(0o700)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {
        **{"HOME": str(folder), "TERM": "vt100", "PS1": PROMPT, "LC_ALL": "C.UTF-8"},
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "DBCHECK_INVENTORY": str(folder / "inventory.yml"),
        "INPUTRC": "/dev/null",
    }


def script(shell: str) -> str:
    """Return the script; skip the test if there is no such shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}: make pages")
    done = subprocess.run(
        (BIN / "dbcheck", "completion", shell),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def terminal(shell: str, folder: Path) -> Terminal:
    """Return a terminal with the shell, once it has read the script."""
    (folder / "script").write_text(script(shell))
    found = Terminal(*START[shell], environment=environment(folder), folder=folder)
    found.until(PROMPT)
    found.type(SETUP[shell])
    found.until(PROMPT)
    return found


def complete(shell: Terminal, typed: str, wanted: str) -> str:
    """Press Tab behind *typed*, wait for *wanted*; return what is shown meanwhile.

    The line is not run but shown, by an echo that is put before it.
    """
    shell.type(f"{typed}\t{BEGINNING_OF_LINE}echo '<'\r")
    return shell.until(f"<{wanted}") + shell.until(PROMPT)


@pytest.mark.wide_with("zsh")
@pytest.mark.parametrize("name", START)
def test_words_are_completed(name: str, folder: Path) -> None:
    with terminal(name, folder) as shell:
        for typed, wanted in WORDS.items():
            assert "Traceback" not in complete(shell, typed, wanted)


@pytest.mark.wide_with("zsh")
@pytest.mark.parametrize("name", START)
def test_all_commands_are_listed(name: str, folder: Path) -> None:
    with terminal(name, folder) as shell:
        shell.type("dbcheck \t\t")
        shell.until(*VERBS)


@pytest.mark.wide_with("zsh")
@pytest.mark.parametrize("name", START)
def test_an_inventory_is_not_run(name: str, folder: Path) -> None:
    with terminal(name, folder) as shell:
        for words in ("run", "audit", "power cut", "matrix"):
            complete(shell, f"dbcheck {words} ", f"dbcheck {words}")
    assert not (folder / "was-run").exists()


@pytest.mark.wide
def test_fish_completes_words(folder: Path) -> None:
    (folder / "dbcheck.fish").write_text(script("fish"))
    asked = "; ".join(f"complete -C {shlex.quote(typed)}; echo" for typed in WORDS)
    done = subprocess.run(
        ("fish", "--no-config", "-c", f"source dbcheck.fish; {asked}"),
        env=environment(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    found = [
        [line.partition("\t")[0].rstrip("/") for line in answer.splitlines()]
        for answer in done.stdout.split("\n\n")
    ]
    wanted = [[completed.split()[-1]] for completed in WORDS.values()]
    assert found[: len(wanted)] == wanted


def test_a_tab_prints_no_error(folder: Path) -> None:
    """Whatever goes wrong: it would stand in the line that is typed."""
    asked = {"_DBCHECK_COMPLETE": "bash_complete", "COMP_CWORD": "not a number"}
    done = subprocess.run(
        (BIN / "dbcheck",),
        env=environment(folder) | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")
