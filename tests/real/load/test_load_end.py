"""How a load ends that is interrupted while it ends, and what is stored of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LoadError, RunWriteError, WitnessError
from dbcheck.cycle import loading
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.host import HostCanaries
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.preflight.first_rows import WARM_ROWS
from dbcheck.cycle.rig import Rig
from dbcheck.load.group import END_S, Break, GroupResult, SessionGroup, Snapshot
from dbcheck.load.load import Load
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Cut
from dbcheck.model.depth import Completed, Counted
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import TargetHost
from dbcheck.ports.power import PowerSwitch
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.bare_engine import BareEngine
from tests.kit.nodes import at_the_cut, site_of, with_node
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST


class EndedGroup:
    """A part whose sessions have ended; to hear of it is interrupted so many times."""

    def __init__(self, result: GroupResult, interrupts: int = 0) -> None:
        self._result, self._interrupts = result, interrupts

    def connect(self) -> None:
        pass

    def start(self, began_us: int) -> None:
        pass

    def snapshot(self) -> Snapshot:
        return Snapshot()

    def end(self, wait_s: float = END_S) -> GroupResult:
        if self._interrupts:
            self._interrupts -= 1
            raise KeyboardInterrupt
        return self._result


def broken(session: int) -> GroupResult:
    return GroupResult(
        sent={session: 5},
        acked={session: 4},
        breaks=[Break(session, session, in_flight=True, farewell="")],
    )


class SilentEngine(BareEngine):
    """A server that tells nothing of itself."""

    def facts(self) -> ServerFacts:
        raise EngineError("it does not answer", id=ErrorId.STATEMENT_FAILED)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A rig with a real witness, whose server and switch nobody needs."""
    witness = open_witness(f"file:{tmp_path}/witness", volatile=True)
    yield Rig(
        site_of(cast(Engine, SilentEngine()), cast(PowerSwitch, None)),
        witness,
        FrameLogReader(),
        PlainProgress(Console(quiet=True)),
        tmp_path / "runs",
    )
    witness.close()


@pytest.fixture
def started(rig: Rig) -> Iterator[Started]:
    """A run that is about to begin its load."""
    run = RunFolder.create(rig.runs, MANIFEST)
    log = rig.witness.create(MANIFEST.run_id, stored.to_bytes(MANIFEST))
    with contextlib.closing(log):
        yield Started(run, MANIFEST, MANIFEST.plan(), log, {})


@pytest.mark.parametrize("interrupts", [1, 2, 3])
def test_the_load_is_stored_only_if_every_part_was_heard(
    rig: Rig, started: Started, monkeypatch: pytest.MonkeyPatch, interrupts: int
) -> None:
    groups = [EndedGroup(broken(1)), EndedGroup(broken(2), interrupts)]
    monkeypatch.setattr(loading, "make_session_groups", lambda *_: groups)
    with pytest.raises(KeyboardInterrupt):
        load_until_cut(rig, started, Cutter(rig, started))
    stored = started.run.load()
    if interrupts == 3:
        assert stored is None
    else:
        assert stored is not None
        assert stored.sent == {0: WARM_ROWS, 1: 5, 2: 5}
        assert stored.acked == {0: WARM_ROWS, 1: 4, 2: 4}


def test_the_record_that_is_left_with_the_witness_bears_the_clients_seal(
    rig: Rig, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        loading, "make_session_groups", lambda *_: [EndedGroup(broken(1))]
    )
    with contextlib.suppress(EngineError):
        load_until_cut(rig, started, Cutter(rig, started))
    run = RunFolder.open(started.run.path)
    run.write_acks(0, rig.witness.read(MANIFEST.run_id))
    facts = rig.reader.facts(run.acks_path(), MANIFEST.run_id, 0, None)
    (event,) = facts.events
    (run.path / "load.json").unlink()
    with refused(
        ErrorId.WITNESS_COPY_CHANGED,
        WitnessError,
        naming="is not what this client left",
    ):
        run.recall_load(event["load"].encode(), "0" * 64, "the log")
    run.recall_load(event["load"].encode(), event["seal"], "the log")
    assert run.load() is not None


def test_a_load_whose_preflight_cannot_be_noted_does_not_begin(
    rig: Rig, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is to be remembered of a cut is stored before the first row."""
    group = EndedGroup(broken(1))
    monkeypatch.setattr(loading, "make_session_groups", lambda *_: [group])
    monkeypatch.setattr(group, "connect", lambda: pytest.fail("the load began"))

    def full() -> None:
        raise RunWriteError(
            "the folder cannot be written", id=ErrorId.FOLDER_NOT_WRITABLE
        )

    with refused(
        ErrorId.FOLDER_NOT_WRITABLE, RunWriteError, naming="cannot be written"
    ):
        load_until_cut(replace(rig, before_load=full), started, Cutter(rig, started))


class Stopped:
    """Canaries that were stopped on a host that answered, or did not."""

    folder, nonce = "/beside", "n"

    def __init__(self, *, answered: bool) -> None:
        self._answers, self._answered = answered, False

    def last_progress_us(self) -> int | None:
        return None

    def completed(self, until_us: int | None = None) -> Completed:
        return Completed(Counted(0, 0), ())

    def heard_us(self) -> int | None:
        return 7

    def reported_us(self) -> int | None:
        return 7

    def answered(self) -> bool:
        return self._answered

    def stop(self) -> None:
        self._answered = self._answers


class Gone:
    """A host whose connection is closed."""

    def close(self) -> None:
        pass


@pytest.mark.parametrize("answered", [True, False])
def test_whether_the_host_outlived_the_load_is_stored(
    rig: Rig, started: Started, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    monkeypatch.setattr(
        loading, "make_session_groups", lambda *_: [EndedGroup(broken(1))]
    )
    asked = with_node(rig, host=cast(TargetHost, Gone()))
    canaries = HostCanaries(Stopped(answered=answered), (None,))
    begun = replace(started, canaries={ONLY_NODE: canaries})
    record = load_until_cut(asked, begun, Cutter(asked, begun))
    assert at_the_cut(record).host_lived is answered


class Held:
    """The session of a crash canary."""

    def __init__(self) -> None:
        self.lives = True

    def is_held(self) -> bool:
        return self.lives

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("cut", "held"), [(Cut(None, None), False), (Cut(5, None), True)]
)
def test_a_canary_lost_between_the_prompt_and_the_hand_is_noticed(
    rig: Rig, started: Started, cut: Cut, held: bool
) -> None:
    """A switch cuts at once: what is closed after that, the cut closed."""
    session = Held()
    cutter = Cutter(rig, replace(started, held=session))
    cutter.cuts = {ONLY_NODE: cut}
    session.lives = False
    cutter.check_canary_session()
    started.log.close()
    assert cutter.canary_held is held


def test_a_part_is_heard_once_wherever_an_interrupt_comes() -> None:
    """Also between its end and the moment at which that is noted."""
    groups = [EndedGroup(broken(1)), EndedGroup(broken(2), 2)]
    load = Load(cast(list[SessionGroup], groups), 1)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            load.end()
        assert not load.is_whole
    load.end()
    load.end()
    assert load.is_whole
    assert [one.session for one in load.result.breaks] == [1, 2]
    assert load.result.sent == {1: 5, 2: 5}


@pytest.mark.parametrize(("acked", "expected"), [(4, 5), (5, 0)])
def test_a_task_met_the_end_if_it_had_no_ack(acked: int, expected: int) -> None:
    """Under a rate its session may only have waited for its turn."""
    result = GroupResult(
        sent={HOUSEKEEPING_SESSION: 5},
        acked={HOUSEKEEPING_SESSION: acked},
        breaks=[Break(HOUSEKEEPING_SESSION, 1, in_flight=True, farewell="")],
    )
    load = Load([cast(SessionGroup, EndedGroup(result))], 1)
    assert load.poll()
    assert load.task_at_end == expected


@pytest.mark.parametrize("place", [0, 1])
def test_one_lost_part_of_several_makes_no_whole(place: int) -> None:
    """Whatever befell another one before."""
    results = [
        GroupResult(failure=ValueError("a defect")),
        GroupResult(failure=ValueError("another")),
    ]
    results[place].failure = LoadError("lost", id=ErrorId.LOAD_PROCESS_LOST)
    load = Load(cast(list[SessionGroup], [EndedGroup(one) for one in results]), 1)
    load.end()
    assert not load.is_whole
