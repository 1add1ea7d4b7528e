"""What a soak draws, what it takes for wrong, and what it keeps of its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.lab.spec import FILESYSTEMS
from dbcheck.model.verdict import Verdict
from tools.soak import record
from tools.soak.case import ENGINES, KINDS, Case, complaint, keeps
from tools.soak.items import Result, Suite, is_tests, item

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
KEPT = Result(1, "honest drive", "mariadb, xfs", {"PASS": 4}, [])
LOST = Result(2, "lying drive", "mysql, ext4", {"FAIL": 1, "INCONCLUSIVE": 1}, [])
TRIAL = Result(7, "fault trial", "seed 1", {"passed": 1}, [])
WRONG = Result(9, "honest drive", "mariadb, xfs", {"FAIL": 1}, ["FAIL although ..."])


def test_every_lab_comes_in_turn_and_is_the_same_again() -> None:
    cases = [Case.of(number) for number in range(2 * len(KINDS) * len(ENGINES) + 1)]
    drawn = {(c.kind.name, c.spec.engine, c.spec.filesystem) for c in cases}
    assert len(drawn) == len({kind.name for kind in KINDS}) * 6
    assert {c.spec.filesystem for c in cases} == {*FILESYSTEMS}
    assert cases == [Case.of(case.number) for case in cases]


def test_no_number_of_a_lab_is_left_out() -> None:
    items = [item(number) for number in range(1, 100)]
    labs = [one.number for one in items if isinstance(one, Case)]
    assert labs == [*range(len(labs))]
    assert len({str(one) for one in items if isinstance(one, Suite)}) > 15


@pytest.mark.parametrize(
    ("verdict", "reasons", "kept", "wrong"),
    [
        (PASS, (), True, ""),
        (FAIL, ("rows",), True, "FAIL although the storage kept every commit: rows"),
        (INCONCLUSIVE, ("why",), True, "INCONCLUSIVE although the storage kept"),
        (FAIL, ("rows",), False, ""),
        (INCONCLUSIVE, ("why",), False, ""),
        (INCONCLUSIVE, (), False, "storage lost commits: no reason"),
        (PASS, (), False, "PASS although the storage lost commits"),
    ],
)
def test_a_verdict_that_the_storage_does_not_bear_out_is_wrong(
    verdict: Verdict, reasons: tuple[str, ...], kept: bool, wrong: str
) -> None:
    found = complaint(verdict, reasons, kept=kept)
    assert found.startswith(wrong) if wrong == "" else wrong in found
    assert bool(found) == bool(wrong)


def test_a_fickle_drive_is_held_to_what_it_did() -> None:
    (fickle,) = [kind for kind in KINDS if kind.keeps is None]
    assert keeps(fickle, {"flushes": 500, "flushes_honoured": 500})
    assert not keeps(fickle, {"flushes": 500, "flushes_honoured": 3})
    assert all(keeps(k, {}) == k.keeps for k in KINDS if k.keeps is not None)


def test_results_are_kept_although_a_line_was_torn(tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.jsonl"
    assert record.read(file) == []
    record.add(file, KEPT)
    with file.open("ab") as out:
        out.write(b'{"number": 2, "ki')
    record.add(file, WRONG)
    assert record.read(file) == [KEPT, WRONG]


def test_the_summary_counts_cuts_and_tests_apart_and_names_what_is_wrong() -> None:
    assert [is_tests(one) for one in (KEPT, LOST, TRIAL)] == [False, False, True]
    lines = record.summary([KEPT, KEPT, LOST, TRIAL], "here")
    assert lines[0].startswith("4 items, 10 cuts, 0 unexpected, here. At most ")
    assert "| storage | mariadb, xfs | mysql, ext4 |" in lines
    assert "| honest drive | 8 PASS | - |" in lines
    assert "| lying drive | - | 1 FAIL, 1 INCONCLUSIVE |" in lines
    assert "| fault trial | 1 | 1 | 0 | 0 |" in lines
    lines = record.summary([KEPT, WRONG], "here")
    assert lines[0] == "2 items, 5 cuts, 1 unexpected, here."
    assert lines[-1] == "- item 9, honest drive: FAIL although ..."


def test_the_summary_takes_the_place_of_the_former_one(tmp_path: Path) -> None:
    document = tmp_path / "x.md"
    document.write_text(f"before\n{record.BEGIN}\nold\n{record.END}\nafter\n")
    record.require_marks(document)
    record.put_into(document, ["new"])
    text = document.read_text()
    assert text == f"before\n{record.BEGIN}\nnew\n{record.END}\nafter\n"
    document.write_text("without")
    with pytest.raises(ValueError, match="soak: begin"):
        record.require_marks(document)
