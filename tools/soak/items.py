"""The items of a soak, one after the other, and what comes of each."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dbcheck.base.errors import DbcheckError
from dbcheck.runner.lab_cycles import run_lab_cycles
from tests.kit.nodes import at_the_cut
from tests.kit.rigs import Said
from tools.soak.case import Case, complaint, keeps

ROOT = Path(__file__).parents[2]
PLANTED = tuple(
    path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "tests" / "planted").glob("test_*.py"))
)
_EVERY = 8  # one item of so many is a fault trial, and one a file of planted faults
_TRIAL, _PLANTED = "fault trial", "planted faults"
_TESTS_S = 1800.0
_SAID_MAX = 2000


class Result(msgspec.Struct, frozen=True):
    """What came of an item.

    number:   of the item.
    kind:     of drive, of server, or of tests.
    where:    engine and filesystem, or the tests.
    verdicts: of its cuts, or the outcomes of its tests, and how many of each.
    wrong:    what must not be; empty if all is as expected.
    """

    number: int
    kind: str
    where: str
    verdicts: dict[str, int]
    wrong: list[str]


def is_tests(result: Result) -> bool:
    """Say whether an item ran tests, and no cuts of its own."""
    return result.kind in (_TRIAL, _PLANTED)


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests that are run as an item."""

    number: int
    kind: str
    name: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}, {self.name}"


def item(number: int) -> Case | Suite:
    """Return what is done under a number, 1 or more."""
    turn, place = divmod(number - 1, _EVERY)
    if place == _EVERY - 2:
        trial = ("--trials", "1", "--first-trial", str(turn + 1))
        words = ("-m", "trials", "tests/trials/test_trials.py", *trial)
        return Suite(number, _TRIAL, f"seed {turn + 1}", words)
    if place == _EVERY - 1:
        path = PLANTED[turn % len(PLANTED)]
        return Suite(number, _PLANTED, path, ("-m", "not soak", path))
    # Without gaps, so that every kind of lab comes in turn.
    return Case.of(turn * (_EVERY - 2) + place)


def run(what: Case | Suite, number: int, folder: Path) -> Result:
    """Do it; what it leaves in *folder* is removed if all was as expected."""
    if isinstance(what, Suite):
        return _tests(what)
    return _cuts(what, number, folder)


def _cuts(case: Case, number: int, folder: Path) -> Result:
    runs = folder / f"runs-{number}"
    verdicts: dict[str, int] = {}
    wrong: list[str] = []
    seed = case.number * 1000
    cycles = run_lab_cycles(case.spec, case.workload, seed, case.cuts, Said(), runs)
    try:
        for outcome in cycles:
            name = outcome.verdict.name
            verdicts[name] = verdicts.get(name, 0) + 1
            cut = at_the_cut(outcome.load).cut if outcome.load else None
            if cut is None:
                wrong.append("there was no cut")
                continue
            kept = keeps(case.kind, cut.report)
            if said := complaint(outcome.verdict, outcome.judgement.reasons, kept=kept):
                wrong.append(f"{said} ({outcome.run.path})")
    except DbcheckError as error:
        wrong.append(f"{type(error).__name__}: {error}")
    if not wrong:
        shutil.rmtree(runs, ignore_errors=True)
    where = f"{case.spec.engine}, {case.spec.filesystem}"
    return Result(number, case.kind.name, where, verdicts, wrong)


def _tests(tests: Suite) -> Result:
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    try:
        done = subprocess.run(
            (*command, *tests.words),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TESTS_S,
        )
    except subprocess.TimeoutExpired as error:
        return Result(tests.number, tests.kind, tests.name, {}, [str(error)])
    last = done.stdout.rstrip().rpartition("\n")[2]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", last)}
    kept = ("passed", "failed", "error", "errors", "skipped")
    verdicts = {word: n for word, n in counts.items() if word in kept}
    wrong = [done.stdout[-_SAID_MAX:]] if done.returncode else []
    return Result(tests.number, tests.kind, tests.name, verdicts, wrong)
