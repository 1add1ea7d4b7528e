"""What a restored copy has to hold, against a server whose state is known."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from dbcheck.base.points import Point, PointKind
from dbcheck.rows.acks import ACK_DTYPE, TIME_UNIT_US, AckArray
from dbcheck.rows.copied import Copied, CopyLaw, CopyRecord, judge_copy
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.summary import AckStream

S = 1_000_000


class Commit(NamedTuple):
    """One commit; times in us: as the client saw them, and when the server did it."""

    session: int
    seq: int
    sent_us: int
    done_us: int
    acked_us: int


def load(drawn: random.Random, sessions: int, commits: int) -> list[Commit]:
    """Return commits of sessions, each of which sends after the ack before, by ack."""
    made = []
    for session in range(1, sessions + 1):
        at = S + drawn.randint(0, 5_000)
        for seq in range(1, commits + 1):
            sent = at + drawn.randint(0, 300)
            done = sent + drawn.randint(1, 20_000)
            at = done + drawn.randint(1, 20_000)
            made.append(Commit(session, seq, sent, done, at))
    return sorted(made, key=lambda commit: commit.acked_us)


def logged_us(acked_us: int) -> int:
    """Return the time that the log holds of an ack: rounded up."""
    return -(-acked_us // TIME_UNIT_US) * TIME_UNIT_US


def stream(commits: list[Commit], at_once: int = 7) -> AckStream:
    rows = [(c.session, c.seq, c.seq, logged_us(c.acked_us)) for c in commits]

    def batches() -> Iterator[AckArray]:
        for begin in range(0, len(rows), at_once):
            yield np.array(rows[begin : begin + at_once], ACK_DTYPE)

    return batches


def compared(
    commits: list[Commit], there: set[Commit], *others: Loss
) -> Reconciliation:
    """Return what a comparison of the copy's rows with all acks finds."""
    losses = [
        Loss(
            LossKind.MISSING_TAIL,
            *(c.session, c.seq, c.seq, logged_us(c.acked_us), "ledger"),
        )
        for c in commits
        if c not in there
    ]
    kept = len(commits) - len(losses) - len(others)
    found = Losses.of([*losses, *others])
    return Reconciliation(len(commits), kept, 0, 0, 0, 0, {}, found)


def judge(
    commits: list[Commit], there: set[Commit], law: CopyLaw
) -> tuple[set[tuple[int, int]], Copied]:
    found, copied = judge_copy(stream(commits), compared(commits, there), law)
    assert (found.confirmed, found.kept) == (copied.due, copied.due_kept)
    return {(loss.session, loss.seq) for loss in found.losses}, copied


def drawn_copy(seed: int) -> tuple[random.Random, list[Commit], int, CopyLaw]:
    """Return a load, the moment of a copy, and the moments that are known of it."""
    drawn = random.Random(seed)
    commits = load(drawn, drawn.randint(1, 9), drawn.randint(2, 60))
    last_us = commits[-1].acked_us
    at_us = drawn.randint(S, last_us)
    law = CopyLaw(at_us - drawn.randint(0, 50_000), at_us + drawn.randint(0, 50_000))
    return drawn, commits, at_us, law


@pytest.mark.parametrize("seed", range(40))
def test_a_state_that_the_server_had_is_never_accused(seed: int) -> None:
    _, commits, at_us, law = drawn_copy(seed)
    there = {c for c in commits if c.done_us <= at_us}
    broken, copied = judge(commits, there, law)
    assert not broken and not copied.after_kept
    assert copied.due == copied.due_kept <= len(there)
    assert copied.due >= sum(logged_us(c.acked_us) <= law.due_us for c in commits)
    assert copied.due + copied.open + copied.after == len(commits)


@pytest.mark.parametrize("seed", range(40))
def test_what_no_moment_of_the_server_looked_like_is_named(seed: int) -> None:
    drawn, commits, at_us, law = drawn_copy(seed)
    there = {c for c in commits if c.done_us <= at_us}
    there -= set(drawn.sample(sorted(there), min(3, len(there))))
    if drawn.random() < 0.5:
        there.add(drawn.choice(commits))
    none_us = law.none_us
    assert none_us is not None
    broken, copied = judge(commits, there, law)
    before_us: dict[int, int] = {}
    sent_us = {}
    for c in commits:  # what the log tells of when each was sent
        sent_us[c] = before_us.get(c.session, -S) - TIME_UNIT_US
        before_us[c.session] = logged_us(c.acked_us)
    until_us = max([law.due_us, *(sent_us[c] for c in there)])
    due = {c for c in commits if logged_us(c.acked_us) <= until_us}
    assert broken == {(c.session, c.seq) for c in due - there}
    assert (copied.due, copied.due_kept) == (len(due), len(due & there))
    after = {c for c in commits if sent_us[c] >= none_us} - due
    assert copied.after_kept == len({c for c in there if sent_us[c] >= none_us})
    assert len(after) <= copied.after


@pytest.mark.parametrize("seed", range(40))
def test_an_archive_that_ends_within_its_objective_is_never_accused(seed: int) -> None:
    """It ends at a moment of the server, and has each commit that was done by then."""
    drawn, commits, _, _ = drawn_copy(seed)
    lost_us, rpo_us = commits[-1].acked_us, drawn.randint(0, 200_000)
    ends_us = lost_us - drawn.randint(0, rpo_us)
    there = {c for c in commits if c.done_us <= ends_us}
    early_us = lost_us - drawn.randint(0, 50_000)  # as a switch shows it
    broken, copied = judge(commits, there, CopyLaw(early_us - rpo_us, None))
    assert not broken
    missing = [c for c in commits if c not in there]
    assert copied.missing == len(missing)
    oldest_us = min((logged_us(c.acked_us) for c in missing), default=None)
    assert copied.oldest_missing_us == oldest_us
    assert copied.after == 0


@pytest.mark.parametrize("seed", range(40))
def test_an_archive_that_ends_too_early_lacks_each_commit_that_was_due(
    seed: int,
) -> None:
    drawn, commits, _, _ = drawn_copy(seed)
    lost_us, rpo_us = commits[-1].acked_us, drawn.randint(0, 20_000)
    there = {c for c in commits if c.done_us <= lost_us - 2 * rpo_us}
    due_us = lost_us - rpo_us
    broken, _ = judge(commits, there, CopyLaw(due_us, None))
    due = {c for c in commits if logged_us(c.acked_us) <= due_us}
    assert {(c.session, c.seq) for c in due - there} <= broken
    assert broken <= {(c.session, c.seq) for c in commits if c not in there}


def test_a_missing_commit_counts_if_a_later_one_of_another_session_is_there() -> None:
    first = Commit(1, 1, 10_000, 11_000, 12_000)
    before = Commit(2, 1, 10_000, 11_000, 20_000)
    later = Commit(2, 2, 20_000, 21_000, 22_000)
    law = CopyLaw(9_000, 10 * S)
    broken, copied = judge([first, before, later], {before, later}, law)
    assert broken == {(1, 1)}
    assert (copied.due, copied.by_order, copied.due_kept) == (1, 1, 0)
    assert judge([first, before, later], {before}, law)[0] == set()


def test_a_round_trip_that_the_log_cannot_order_accuses_nobody() -> None:
    """The log's times have steps: within one step nothing says which came first."""
    first = Commit(1, 1, 10_000, 11_000, 12_050)
    before = Commit(2, 1, 10_000, 11_000, 12_010)
    later = Commit(2, 2, 12_020, 12_030, 13_000)
    law = CopyLaw(9_000, 10 * S)
    assert judge([before, first, later], {before, later}, law)[0] == set()


def test_damage_breaks_the_law_wherever_it_is() -> None:
    commits = [Commit(1, 1, 0, 1, 1_000), Commit(1, 2, 1_000, 1_500, 90_000)]
    damaged = Loss(LossKind.CORRUPT, 1, 2, 2, 90_000, "ledger")
    found = compared(commits, set(commits), damaged)
    judged, copied = judge_copy(stream(commits), found, CopyLaw(2_000, 50_000))
    assert judged.losses.counts == {LossKind.CORRUPT: 1}
    assert (copied.due, copied.due_kept) == (1, 1)


def test_commits_from_after_the_copy_are_counted() -> None:
    """A server that still follows the original, or the original itself, has them."""
    commits = [Commit(1, n, n * S, n * S + 5, n * S + 9) for n in range(1, 9)]
    _, copied = judge(commits, set(commits), CopyLaw(2 * S, 4 * S))
    assert copied.after_kept == 4
    _, copied = judge(commits, set(commits[:4]), CopyLaw(2 * S, 4 * S))
    assert copied.after_kept == 0 and copied.after == 4


LSN = Point(PointKind.LSN, "0/3000148")


def test_a_point_has_the_law_of_a_copy_and_was_taken_by_no_program() -> None:
    copy, pointed = CopyRecord(1_000, 4_000), CopyRecord(1_000, 4_000, point=LSN)
    assert pointed.law == copy.law == CopyLaw(1_000, 4_000)
    assert (copy.taken_s, copy.read_s) == (0.003, None)
    assert (pointed.taken_s, pointed.read_s) == (None, 0.003)


@pytest.mark.parametrize("times", [(None, None), (1_000, None)])
def test_a_point_is_not_known_without_when_it_was_read(
    times: tuple[int | None, int | None],
) -> None:
    with pytest.raises(ValueError, match="without when it was read"):
        CopyRecord(*times, point=LSN)
