"""The verdict on a restored copy, its headline and its evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.verdict import Judgement
from dbcheck.model.server import Refill
from dbcheck.model.verdict import Verdict
from dbcheck.restore.judging import judge_restored
from dbcheck.rows.copied import Copied, CopyRecord
from dbcheck.rows.loss import IndexLoss, LossKind
from tests.kit.copied_cases import COPIED, EMPTY, OTHER, SAFE, S
from tests.kit.copied_cases import case_of as of
from tests.kit.copied_cases import lost_in_copy as lost
from tests.kit.nodes import having
from tests.kit.samples import ALL_GONE, CLEAN

LATE = "every commit that was acknowledged before the copy was begun (10) is in the"


def item(judgement: Judgement, wanted: ItemId) -> Item:
    (found,) = (each for each in judgement.items if each.id is wanted)
    return found


def said(case: Case, verdict: Verdict = Verdict.INCONCLUSIVE) -> str:
    """Return the headline of *case*, whose verdict must be that one."""
    judgement = judge_restored(case)
    assert judgement.verdict is verdict
    return judgement.reasons[0]


def test_a_whole_copy_passes_and_says_how_many_commits_it_has() -> None:
    assert said(of(), Verdict.PASS) == (
        f"{LATE} restored copy; of the 7 that came meanwhile it has 5, without a gap"
    )
    judgement = judge_restored(of())
    assert len(judgement.reasons) == 1
    required = {each.id for each in judgement.items if each.required}
    assert required == {
        *(ItemId.COPY_TAKEN, ItemId.COPY_OF_SERVER, ItemId.COPY_APART),
        *(ItemId.WITNESS_LOG, ItemId.SETTINGS),
    }
    assert {each.status for each in judgement.items} == {Status.PRESENT}
    taken = item(judgement, ItemId.COPY_TAKEN).reason
    assert taken == "its program took 3.0 s, and 7 commits came meanwhile"
    apart = item(judgement, ItemId.COPY_APART).reason
    assert apart == "it has none of the 4 commits sent after it was taken"
    assert item(judgement, ItemId.RESTORED).reason == "its program took 2.5 s"


def test_a_copy_of_its_first_moment_passes_without_the_commits_that_came_then() -> None:
    early = Copied(10, 0, 10, 7, 0, 4, 0, 10 * S, None)
    assert said(of(copied=early), Verdict.PASS) == (
        f"{LATE} restored copy; of the 7 that came meanwhile it has none"
    )


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        ([LossKind.MISSING_HOLE], "1 of the 12 commits that {} must have is missing"),
        (
            [LossKind.MISSING_TAIL, LossKind.CORRUPT],
            "2 of the 12 commits that {} must have are missing or damaged",
        ),
        ([LossKind.CORRUPT], "1 of the 12 commits that {} must have is damaged"),
    ],
)
def test_a_copy_that_lacks_commits_fails(kinds: list[LossKind], text: str) -> None:
    early = replace(COPIED, due_kept=12 - len(kinds), by_order=0)
    assert said(of(lost(*kinds), early), Verdict.FAIL) == text.format(
        "the restored copy"
    )


def test_a_commit_that_is_missing_before_a_later_one_fails_and_says_why() -> None:
    torn = replace(COPIED, due_kept=11)
    assert said(of(lost(LossKind.MISSING_HOLE), torn), Verdict.FAIL) == (
        "1 of the 12 commits that the restored copy must have is missing. Of these 12"
        " commits, 2 must be there since later commits are there, and the rest since"
        " they were acknowledged before it was begun"
    )


def test_rows_that_nobody_wrote_fail_although_all_commits_are_there() -> None:
    found = lost(LossKind.UNEXPECTED)
    text = said(of(found), Verdict.FAIL)
    assert text == "1 row was there that this run cannot have written"


def test_an_index_that_disagrees_with_its_table_fails() -> None:
    index = IndexLoss("1 row of 12 is not found by its index", 1, (7,), "ledger")
    why = f"an index and its table disagree: {index.reason}"
    assert said(of(index=index), Verdict.FAIL) == (
        "the restored copy has all of the 12 commits that it must have, but " + why
    )
    judgement = judge_restored(of(lost(LossKind.CORRUPT), index=index))
    assert judgement.reasons[-1] == why


def test_a_table_that_is_gone_from_a_copy_of_this_server_fails() -> None:
    case = of(None, None, failure='relation "ledger" does not exist', missing=True)
    judgement = judge_restored(case)
    assert judgement.verdict is Verdict.FAIL
    assert judgement.reasons == (
        "the restored copy has not all tables of this run (3 acknowledged commits in"
        " all); the copy may be an older one, from before this run: relation"
        ' "ledger" does not exist',
        'unrecoverable: relation "ledger" does not exist',
    )
    assert item(judgement, ItemId.COPY_TAKEN).status is Status.NOT_OBSERVABLE


def test_a_table_that_is_damaged_fails_whatever_the_server_is_named() -> None:
    case = of(None, None, failure="invalid page in block 7", facts=OTHER)
    assert said(case, Verdict.FAIL) == (
        "a table of this run (3 acknowledged commits in all) is gone or damaged in the"
        " restored copy: invalid page in block 7"
    )
    whose = item(judge_restored(case), ItemId.COPY_OF_SERVER)
    assert whose.reason == "it has the tables of this run"


@pytest.mark.parametrize("facts", [OTHER, None])
def test_a_server_without_the_table_and_with_another_name_accuses_nobody(
    facts: Any,
) -> None:
    case = of(None, None, failure="no ledger", missing=True, facts=facts)
    judgement = judge_restored(case)
    assert judgement.other_data
    assert said(case) == (
        "nothing shows that the server that was read is on a copy of this one: it has"
        " not all tables of this run, and not the identity of this server. Let the"
        " program restore the copy that has the run's id, at the URL in"
        " dbcheck_restore, and copy it again"
    )


def test_a_server_without_a_row_and_with_another_name_accuses_nobody() -> None:
    case = of(ALL_GONE, EMPTY, facts=OTHER)
    assert said(case).startswith(
        "nothing shows that the server that was read is on a copy of this one: it has"
        " no row of this run, and not the identity of this server."
    )


def test_an_older_copy_of_this_server_fails_and_says_that_it_may_be_one() -> None:
    assert said(of(ALL_GONE, EMPTY), Verdict.FAIL) == (
        "the 1 commit that the restored copy must have is missing; the copy may be"
        " an older one, from before this run"
    )


def test_a_copy_with_a_commit_that_came_meanwhile_is_no_older_one() -> None:
    """Whatever is missing of those from before it: so it is of this run."""
    case = of(ALL_GONE, replace(EMPTY, open_kept=1), facts=OTHER)
    assert "older" not in said(case, Verdict.FAIL)


def test_a_dump_that_has_the_rows_passes_under_another_name() -> None:
    assert said(of(facts=OTHER), Verdict.PASS).startswith("every commit")


def test_the_server_itself_is_no_copy_whatever_it_lacks() -> None:
    case = of(lost(LossKind.CORRUPT), replace(COPIED, after_kept=3))
    assert judge_restored(case).other_data
    assert said(case) == (
        "the server that was read is not on a copy: it has 3 of the 4 commits sent"
        " after it was taken: it is the server itself, or follows it. Restore the copy"
        " at the URL in dbcheck_restore, with nothing that lets it follow the original,"
        " and copy it again"
    )


def test_a_replica_that_may_lag_is_no_copy_and_is_not_accused() -> None:
    """Delayed, it may have none of the later commits yet, and be at any moment."""
    replica = Refill("follows another server as its replica", "Stop it", replaces=True)
    for found in (CLEAN, lost(LossKind.MISSING_TAIL)):
        case = of(found, refill=replica)
        assert judge_restored(case).other_data
        assert "follows another server as its replica" in said(case)


def test_a_clone_is_a_copy() -> None:
    clone = Refill("was cloned from another server", "", replaces=True, cloned=True)
    assert said(of(refill=clone), Verdict.PASS).startswith("every commit")


def test_an_index_of_a_server_that_is_no_copy_accuses_nobody() -> None:
    index = IndexLoss("a row is not found", 1, (7,), "ledger")
    assert "not on a copy" in said(
        of(copied=replace(COPIED, after_kept=3), index=index)
    )


def test_a_copy_that_was_taken_while_nothing_was_committed_shows_nothing() -> None:
    idle = replace(COPIED, by_order=0, open=0, open_kept=0)
    assert said(of(copied=idle)) == (
        "nothing shows that the server was at work while the copy was taken: its"
        " program took 3.0 s, and no commit came meanwhile. Use more sessions, or no"
        " --rate, and copy it again"
    )


def test_a_copy_after_which_nothing_was_sent_is_not_known_to_be_apart() -> None:
    assert said(of(copied=replace(COPIED, after=0))) == (
        "nothing shows that the server that was read is apart from the original: no"
        " commit was sent after it was taken: use more sessions, and copy it again"
    )


def test_a_run_without_a_commit_before_the_copy_shows_nothing() -> None:
    found = replace(CLEAN, confirmed=0, kept=0)
    none = replace(COPIED, due=0, due_kept=0, by_order=0)
    assert said(of(found, none)) == (
        "no commit is on record from before the copy was begun. Copy it again"
    )


def test_rows_of_another_run_leave_it_open() -> None:
    text = said(of(replace(CLEAN, foreign=2)))
    assert text == "2 rows of another run: a second dbcheck may have been running"


def test_a_damaged_log_of_the_witness_proves_nothing() -> None:
    case = replace(of(None, None), damage="the frame at byte 7 is damaged")
    assert said(case) == (
        "the frame at byte 7 is damaged. Check the witness's disk, or use another"
        " witness; then run it again"
    )


def test_a_server_that_did_not_answer_leaves_it_open() -> None:
    case = of(None, None, unanswered="no answer for 60 s", facts=None)
    assert said(case) == "no answer for 60 s"


def test_a_copy_that_was_never_taken_is_no_evidence() -> None:
    judgement = judge_restored(of(None, None, CopyRecord(10 * S)))
    assert item(judgement, ItemId.COPY_TAKEN).reason == "no copy was taken"
    assert judgement.reasons == ("the rows of the copy were not read",)


def test_an_unsafe_setting_says_to_copy_again_and_speaks_of_no_cut() -> None:
    settings = {**SAFE.settings, "fsync": "off"}
    case = of()
    unsafe = replace(SAFE, settings=settings)
    case = replace(case, manifest=having(case.manifest, facts=unsafe))
    text = said(case)
    assert "fsync = off" in text
    assert "copy it again" in text
    assert "cut" not in text


def test_no_sentence_of_a_copy_speaks_of_a_cut() -> None:
    cases = (of(), of(lost(LossKind.MISSING_TAIL)), of(copied=replace(COPIED, after=0)))
    for judgement in map(judge_restored, cases):
        texts = [*judgement.reasons, *(each.reason for each in judgement.items)]
        assert not any("cut" in text for text in texts)
