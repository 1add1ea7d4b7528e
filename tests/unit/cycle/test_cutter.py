"""When the cut comes, on a rig that does nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, PowerError
from dbcheck.base.limits import BEHIND_S, SILENCE_S
from dbcheck.base.system import now_us
from dbcheck.cycle.cutter import ANSWERS_MIN, ANSWERS_WAIT_S, RESUMED_S, Cutter
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.cycle.watching import FollowerWatch
from dbcheck.load.load import Load
from dbcheck.model.cut import Cut, SwitchKind
from dbcheck.model.moments import AT_ONCE, Activity, PlannedCut
from dbcheck.model.records import CutAsked
from dbcheck.model.server import LogPosition
from dbcheck.model.witness import CUT_EVENT
from dbcheck.ports.listener import Phase
from tests.kit.nodes import site_of
from tests.kit.refusals import refused
from tests.kit.samples import FACTS
from tests.kit.waiting import wait_until

DUE_S = 1.0


class Quiet:
    """Stands for the engine, the switch, the listener, the log and the run's folder."""

    kind = SwitchKind.EXEC

    def facts(self) -> None:
        raise EngineError("nobody is asked", id=ErrorId.STATEMENT_FAILED)

    def cut(self) -> Cut:
        return Cut(None, None)

    def note(self, event: Mapping[str, object]) -> None:
        pass

    def write_cut_asked(self, asked: CutAsked) -> None:
        pass

    def phase(self, phase: Phase, detail: str) -> None:
        pass


@pytest.fixture
def cutter() -> Cutter:
    return cutter_of(Quiet())


def cutter_of(quiet: Any) -> Cutter:
    rig = SimpleNamespace(site=site_of(quiet, quiet), listener=quiet, limits=Limits())
    workload = SimpleNamespace(cut_after_s=(DUE_S, DUE_S))
    writer = SimpleNamespace(facts=FACTS)
    manifest = SimpleNamespace(
        seed=1, workload=workload, moment=None, writer=writer, copy=None
    )
    started = SimpleNamespace(manifest=manifest, log=quiet, run=quiet, held=None)
    return Cutter(cast(Rig, rig), cast(Started, started))


def long_ago_us() -> int:
    return now_us() - int(2 * RESUMED_S * 1e6)


def test_it_comes_when_it_is_due(cutter: Cutter) -> None:
    cutter.cut_if_due(DUE_S / 2, 0.0, now_us())
    assert not cutter.asked
    cutter.cut_if_due(
        DUE_S, 0.0, long_ago_us()
    )  # a load that idles is judged, not kept
    assert cutter.asked


@pytest.mark.parametrize("acked", [True, False])
def test_after_a_lag_it_comes_once_an_ack_shows_that_sessions_go_on(
    cutter: Cutter, acked: bool
) -> None:
    cutter.cut_if_due(DUE_S, BEHIND_S, now_us())
    assert not cutter.asked
    cutter.cut_if_due(DUE_S, 0.0, long_ago_us() if acked else None)
    assert not cutter.asked
    cutter.cut_if_due(DUE_S, 0.0, now_us())
    assert cutter.asked


class SlowToNote(Quiet):
    """A witness that is slow to confirm what is noted, until it is let go on."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def note(self, event: Mapping[str, object]) -> None:
        assert self.goes_on.wait(60)


def test_a_slow_note_does_not_keep_the_cut_from_a_load_that_is_over() -> None:
    """The sessions did not wait for it, so no ack has to show that they go on."""
    slow = SlowToNote()
    cutter = cutter_of(slow)
    cutter.cut_if_due(DUE_S, 0.0, long_ago_us())
    assert not cutter.asked
    slow.goes_on.set()
    wait_until(lambda: cut(cutter), "the cut comes")


def cut(cutter: Cutter) -> bool:
    cutter.cut_if_due(DUE_S, 0.0, long_ago_us())
    return cutter.asked


class Refusing(Quiet):
    """A server that makes no checkpoint for this account, asked or not."""

    def checkpoint(self) -> str | None:
        return REFUSED


class Breaking(Quiet):
    """A server whose checkpoint fails."""

    def checkpoint(self) -> str | None:
        raise EngineError(REFUSED, id=ErrorId.STATEMENT_FAILED)


class Making(Quiet):
    """A server that makes one."""

    def checkpoint(self) -> str | None:
        return None


REFUSED = "must be superuser to do CHECKPOINT"


def in_checkpoint(parts: Any, refused: str = "") -> Cutter:
    """A cut that is to come within a checkpoint."""
    rig = SimpleNamespace(site=site_of(parts, parts), listener=parts, limits=Limits())
    drawn = PlannedCut(1, Activity.CHECKPOINT, DUE_S, 0.05)
    manifest = SimpleNamespace(
        seed=1,
        workload=SimpleNamespace(cut_after_s=(DUE_S, DUE_S)),
        moment=drawn,
        copy=None,
    )
    started = SimpleNamespace(
        manifest=manifest, log=parts, run=parts, no_checkpoint=refused, held=None
    )
    return Cutter(cast(Rig, rig), cast(Started, started))


@pytest.mark.parametrize(
    ("parts", "known", "refused"),
    [
        (Making(), "", ""),
        (Refusing(), "", REFUSED),
        (Breaking(), "", REFUSED),
        (Making(), REFUSED, REFUSED),  # the preflight asked in vain
    ],
)
def test_a_checkpoint_that_was_refused_is_remembered(
    parts: Any, known: str, refused: str
) -> None:
    cutter = in_checkpoint(parts, known)
    cutter.cut_if_due(DUE_S, 0.0, now_us())
    assert cutter.asked is bool(known)
    wait_until(lambda: cutter.no_checkpoint == refused, "the server answered")
    cutter.cut_if_due(DUE_S + 0.1, 0.0, now_us())
    assert cutter.asked
    assert cutter.no_checkpoint == refused
    assert cutter.due_us is not None


def test_what_was_due_is_remembered_however_late_the_cut(cutter: Cutter) -> None:
    cutter.cut_if_due(DUE_S + 7, BEHIND_S, now_us())  # the witness lags
    assert not cutter.asked
    cutter.cut_if_due(DUE_S + 9, 0.0, now_us())
    assert cutter.asked
    assert cutter.due_us is not None
    assert 7 <= (now_us() - cutter.due_us) / 1e6 < 8.5


class Failing(Quiet):
    """A switch that does not work."""

    def cut(self) -> Cut:
        raise PowerError("the outlet does not answer", id=ErrorId.POWER_COMMAND_FAILED)


class Held:
    """Stands for a load whose sessions send nothing; they are slow to go on."""

    def __init__(self, answered: int = 100) -> None:
        self.orders: list[bool] = []
        self.began_us = now_us()
        self.commits, self.sent_us = answered, 0
        self.idle = True

    def answered(self) -> int:
        return self.commits

    def hold(self, *, held: bool) -> None:
        if not held:
            time.sleep(0.2)
        self.orders.append(held)

    def status(self) -> Any:
        return SimpleNamespace(recent_ms={"max": 1.0})

    def idle_us(self) -> int | None:
        return now_us() if self.idle else None

    def newest_sent_us(self) -> int:
        return self.sent_us

    def last_ack_us(self) -> int:
        return self.began_us


def in_hold(parts: Any, lag_s: tuple[float, float] = AT_ONCE) -> tuple[Cutter, Held]:
    """A cut that is to come while the sessions are held, and its load."""
    rig = SimpleNamespace(site=site_of(parts, parts), listener=parts, limits=Limits())
    drawn = PlannedCut(1, Activity.HOLD, DUE_S, 0.05, lag_s=lag_s)
    manifest = SimpleNamespace(
        seed=1,
        workload=SimpleNamespace(cut_after_s=(DUE_S, DUE_S)),
        moment=drawn,
        copy=None,
    )
    started = SimpleNamespace(
        manifest=manifest,
        log=parts,
        run=parts,
        no_checkpoint="",
        held=None,
        canaries={},
    )
    cutter, load = Cutter(cast(Rig, rig), cast(Started, started)), Held()
    cutter.load = cast(Load, load)
    return cutter, load


def test_sessions_that_were_held_have_gone_on_before_the_load_can_end() -> None:
    """What ends the load closes what the sessions are told to go on by."""
    cutter, load = in_hold(Failing())
    with refused(
        ErrorId.POWER_COMMAND_FAILED, PowerError, naming="the outlet does not answer"
    ):
        wait_until(lambda: cut(cutter), "the cut comes")
    assert load.orders[0] and not load.orders[-1]
    assert cutter.quiet_us


def test_sessions_are_held_also_after_the_switch_has_reported_its_cut() -> None:
    """The power may go later; where it does not, they go on all the same."""
    cutter, load = in_hold(Quiet(), lag_s=(0.9, 1.2))
    latest_us = now_us() + 1_200_000  # or later: the switch is not asked yet
    wait_until(lambda: cut(cutter), "the cut comes")
    wait_until(lambda: True in load.orders, "the sessions are held")

    def go_on() -> bool:
        return not load.orders[-1] and any(
            begun_us < latest_us <= ended_us for begun_us, ended_us in cutter.quiet_us
        )

    wait_until(go_on, "they go on, but not before the power may have gone")
    cutter.let_go()


def test_a_load_that_had_to_wait_for_the_witness_is_cut_once_it_is_held() -> None:
    """Sessions that are held give no young ack that shows that they resumed."""
    cutter, load = in_hold(Quiet())
    cutter.cut_if_due(DUE_S, BEHIND_S, now_us())

    def begun() -> bool:
        cutter.cut_if_due(DUE_S, 0.0, now_us())
        return bool(load.orders) or cutter.asked

    wait_until(begun, "the sessions are held")
    wait_until(lambda: cut(cutter), "the cut comes")


def test_it_waits_for_the_first_answers_however_slow_all_is(cutter: Cutter) -> None:
    """A cut before the first commit shows nothing; after a while it comes all the same:
    a load that never gets going is judged."""
    load = Held(answered=0)
    cutter.load = cast(Load, load)
    cutter.cut_if_due(DUE_S + ANSWERS_WAIT_S / 2, 0.0, None)
    assert not cutter.asked
    load.commits = ANSWERS_MIN
    cutter.cut_if_due(DUE_S + ANSWERS_WAIT_S / 2, 0.0, now_us())
    assert cutter.asked


def test_a_load_without_an_answer_is_cut_in_the_end(cutter: Cutter) -> None:
    cutter.load = cast(Load, Held(answered=0))
    cutter.cut_if_due(DUE_S + ANSWERS_WAIT_S + 1, 0.0, None)
    assert cutter.asked


def test_commits_that_all_wait_are_cut_before_the_load_counts_as_silent(
    cutter: Cutter,
) -> None:
    """As where a source waits for a replica whose link is down."""
    load = Held(answered=0)
    cutter.load = cast(Load, load)
    load.sent_us = now_us()
    cutter.cut_if_due(DUE_S, 0.0, None)
    assert not cutter.asked
    load.sent_us = now_us() - int(SILENCE_S * 0.75 * 1e6)
    cutter.cut_if_due(DUE_S, 0.0, None)
    assert cutter.asked


class Asked:
    """Stands for who follows the writer, asked by another thread."""

    def __init__(self) -> None:
        self.answers = False
        self.since_us: set[int] = set()

    def await_sample(self, asked_us: int) -> bool:
        self.since_us.add(asked_us)
        return self.answers


def test_of_a_cluster_it_waits_for_one_more_sample(cutter: Cutter) -> None:
    following = Asked()
    cutter.following = cast(FollowerWatch, following)
    began_us = now_us()
    for _ in range(3):
        cutter.cut_if_due(DUE_S, 0.0, now_us())
        assert not cutter.asked
    following.answers = True
    cutter.cut_if_due(DUE_S, 0.0, now_us())
    assert cutter.asked
    (since_us,) = following.since_us  # a question of after all else that is waited for
    assert since_us >= began_us


class Unanswered(Quiet):
    """A server that is so busy that its facts come late."""

    def __init__(self) -> None:
        self.asked, self.answers = 0, threading.Event()

    def facts(self) -> None:
        self.asked += 1
        if self.asked > 1:  # not before the load
            assert self.answers.wait(60)
        raise EngineError("nobody is asked", id=ErrorId.STATEMENT_FAILED)


def test_what_is_asked_before_the_cut_is_asked_before_it_is_due() -> None:
    """On a busy host the answer takes seconds, by which the cut would be late."""
    busy = Unanswered()
    cutter = cutter_of(busy)
    cutter.cut_if_due(DUE_S / 2, 0.0, now_us())
    wait_until(lambda: busy.asked == 2, "it is asked")
    busy.answers.set()
    cutter.cut_if_due(DUE_S / 2, 0.0, now_us())
    assert not cutter.asked
    wait_until(lambda: cut(cutter), "the cut comes")


class Noting(Quiet):
    """Counts what is asked and noted, and answers only as long as it may."""

    def __init__(self) -> None:
        self.asked, self.noted = 0, list[str]()
        self.started_us = FACTS.started_us
        self.answers = threading.Event()
        self.answers.set()

    def facts(self) -> Any:
        self.asked += 1
        assert self.answers.wait(60)
        log = cast(LogPosition, self.asked)
        return replace(FACTS, log=log, started_us=self.started_us)

    def note(self, event: Mapping[str, object]) -> None:
        self.noted.append(str(event["event"]))

    def checkpoint(self) -> str | None:
        return None


def test_a_cut_that_had_to_wait_is_prepared_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its facts are those of just before it, and so is what dates the witness's clock.

    Also the names of the notes differ, as each is confirmed, or not, on its own.
    """
    ahead_s = 0.0
    monkeypatch.setattr(
        "dbcheck.cycle.cutter.now_us", lambda: now_us() + int(ahead_s * 1e6)
    )
    noting = Noting()
    cutter = cutter_of(noting)

    def noted_while_it_lags(number: int) -> bool:
        cutter.cut_if_due(DUE_S, BEHIND_S, now_us())
        return len(cutter.noted_us) == number

    wait_until(lambda: noted_while_it_lags(1), "it is prepared")
    ahead_s = 60.0
    wait_until(lambda: noted_while_it_lags(2), "it is prepared once more")
    assert not cutter.asked
    ahead_s = 120.0
    wait_until(lambda: cut_young(cutter, ahead_s), "the cut comes")
    assert noting.asked >= 4  # before the load, too
    assert taken(cutter) == noting.asked
    assert list(cutter.noted_us) == noting.noted
    assert len(set(noting.noted)) == len(noting.noted) >= 3
    assert noting.noted[0] == CUT_EVENT  # what a client that was lost is judged by


def cut_young(cutter: Cutter, ahead_s: float) -> bool:
    cutter.cut_if_due(DUE_S, 0.0, now_us() + int(ahead_s * 1e6))
    return cutter.asked


@pytest.mark.parametrize("answers", [True, False])
def test_within_a_checkpoint_the_facts_are_read_anew_but_not_waited_for(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbcheck.cycle.cutter.PREPARED_MAX_S", 3600.0)
    noting = Noting()
    cutter = in_checkpoint(noting)

    def asked_for() -> bool:
        cutter.cut_if_due(DUE_S, 0.0, now_us())
        return cutter.after_s > DUE_S

    wait_until(lambda: noting.asked == 1, "the facts before the load are read")
    if answers:
        wait_until(asked_for, "the checkpoint is asked for")
        wait_until(lambda: taken(cutter) == 3, "the facts are read within it")
    else:
        wait_until(lambda: taken(cutter) == 2, "the cut is prepared")
        noting.answers.clear()
        wait_until(asked_for, "the checkpoint is asked for")
    cutter.cut_if_due(cutter.after_s, 0.0, now_us())
    assert cutter.asked
    noting.answers.set()
    assert taken(cutter) == (3 if answers else 2)
    assert len(cutter.noted_us) == (2 if answers else 1)


def taken(cutter: Cutter) -> object:
    """Return which facts the cutter has, before its cut is due or after it."""
    cutter.cut_if_due(DUE_S / 2, 0.0, now_us())
    return cutter.before and cutter.before.log


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have facts be read once more as soon as they were read."""
    monkeypatch.setattr("dbcheck.cycle.cutter.PREPARED_MAX_S", 0.0)


def newest(cutter: Cutter) -> int:
    """Have the cutter go on; return which answer of the server it has, 0 for none."""
    cutter.cut_if_due(DUE_S, 0.0, now_us())
    return cast(int, cutter.before.log) if cutter.before else 0


@pytest.mark.usefixtures("at_once")
def test_the_facts_are_read_anew_while_a_hand_is_at_the_plug() -> None:
    """Whatever is noted on the witness by then is all."""
    served = Noting()
    cutter = cutter_of(served)
    wait_until(lambda: cut(cutter), "the hand is asked")
    asked, noted, read_us = served.asked, len(served.noted), now_us()
    wait_until(lambda: newest(cutter) > asked + 1, "newer facts count")
    assert cutter.read_us is not None and cutter.read_us > read_us
    assert len(served.noted) == noted
    served.started_us += 60_000_000
    restarted = served.asked
    wait_until(
        lambda: newest(cutter) > 0 and served.asked > restarted + 3, "more answers"
    )
    assert newest(cutter) <= restarted + 1, "a server that started anew is another one"


class Late(Noting):
    """A server whose facts could not be read when the load began."""

    def facts(self) -> Any:
        found = super().facts()
        if self.asked == 1:
            raise EngineError("too busy", id=ErrorId.STATEMENT_FAILED)
        return found


@pytest.mark.parametrize("restarted", [False, True])
def test_facts_are_compared_with_those_before_the_load_where_none_are_of_its_begin(
    restarted: bool,
) -> None:
    """Those of a server that started anew meanwhile are not of the one that is cut."""
    late = Late()
    late.started_us += 60_000_000 * restarted
    cutter = cutter_of(late)
    wait_until(lambda: cut(cutter), "the cut comes")
    assert (cutter.before is None) is restarted


@pytest.mark.usefixtures("at_once")
def test_the_facts_are_read_anew_while_the_sessions_are_held() -> None:
    served = Noting()
    cutter, load = in_hold(served)
    load.idle = False
    wait_until(
        lambda: newest(cutter) > 0 and True in load.orders, "the sessions are held"
    )
    asked, noted = served.asked, len(served.noted)
    wait_until(lambda: newest(cutter) > asked + 1, "newer facts count")
    assert not cutter.asked
    assert len(served.noted) <= noted + 1, "one may have been on its way"
    load.idle = True
    wait_until(lambda: cut(cutter), "the cut comes")
    cutter.let_go()
