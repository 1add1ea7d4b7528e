"""The lab commands of docs/guides/flush-settings.md get the verdicts that it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from dbcheck import cli
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from tests.kit.users import DBCHECK

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "flush-settings.md"
EXIT_CODES = {"PASS": cli.PASS, "FAIL": cli.FAIL, "INCONCLUSIVE": cli.INCONCLUSIVE}
# A command line, over several lines if each but the last ends in a backslash, and the
# verdict in the line below it.
_SHOWN = re.compile(
    r"^    dbcheck (lab run (?:[^\n]*\\\n)*[^\n]*)\n    (PASS|FAIL|INCONCLUSIVE)  \S",
    re.M,
)


def shown(text: str) -> list[tuple[str, str]]:
    """Return each lab command of a guide as one line, and the verdict below it."""
    found = _SHOWN.findall(text)
    return [(re.sub(r"\s*\\\n\s*", " ", line), verdict) for line, verdict in found]


SHOWN = shown(GUIDE.read_text("utf-8"))


def test_each_lab_command_of_the_guide_has_a_verdict() -> None:
    lines = re.findall(r"^ +dbcheck lab run", GUIDE.read_text("utf-8"), re.M)
    assert len(SHOWN) == len(lines) > 15
    assert {verdict for _, verdict in SHOWN} == set(EXIT_CODES)
    text = "    dbcheck lab run --engine a \\\n        -b\n    FAIL  3 of 4\n"
    assert shown(text) == [("lab run --engine a -b", "FAIL")]
    assert shown("    dbcheck lab run --engine a\n\n    FAIL  3 of 4\n") == []


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.parametrize(("line", "verdict"), SHOWN, ids=[line for line, _ in SHOWN])
def test_a_lab_command_gets_the_verdict_that_the_guide_shows(
    line: str, verdict: str, tmp_path: Path
) -> None:
    words = shlex.split(line)
    if lacking := list_missing(LabSpec(words[words.index("--engine") + 1])):
        pytest.skip("; ".join(lacking))
    done = subprocess.run(
        (*DBCHECK, *words, "--runs", str(tmp_path / "runs")),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == EXIT_CODES[verdict], done.stdout + done.stderr
    assert re.search(rf"\b{verdict}\b", done.stdout)
