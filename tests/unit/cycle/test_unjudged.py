"""Which runs, by their folders or by the witness, are cut and not judged yet."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle.preflight.pending_runs import (
    require_none_on_witness,
    require_none_pending,
)
from dbcheck.cycle.rig import Rig
from dbcheck.model.cut import Gone
from dbcheck.model.records import CutAsked, LoadRecord, Manifest
from dbcheck.model.server import ServerFacts
from dbcheck.model.witness import CUT_EVENT, LOAD_EVENT
from dbcheck.rows.acks import Ack
from dbcheck.rows.table import TableSpec
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bare_engine import BareEngine
from tests.kit.nodes import after_of, having, site_of
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, LOAD, MANIFEST
from tests.kit.witness_logs import LogMaker

CUT = LOAD
NOT_CUT = having(LOAD, cut=None, gone=Gone.NEVER, gone_us=None)
ANNOUNCED = {"event": CUT_EVENT}
RESTARTED = replace(FACTS, started_us=FACTS.started_us + 10**6)


def left(load: LoadRecord) -> dict[str, object]:
    """Return how a client leaves the record of its load on the witness."""
    return {"event": LOAD_EVENT, "load": stored.to_bytes(load).decode()}


class Server(BareEngine):
    """A server; asked: what it was asked for, in turn."""

    family, target = "postgresql", "postgresql://u@other/d"

    def __init__(self, facts: ServerFacts = FACTS, epochs: Sequence[int] = ()) -> None:
        self.asked: list[object] = []
        self._facts, self._epochs = facts, epochs

    def facts(self) -> ServerFacts:
        self.asked.append("facts")
        return self._facts

    def present(self, tables: Sequence[TableSpec]) -> Sequence[TableSpec]:
        self.asked.append("table")
        return tables

    discard = lacking = present  # what else belongs to that ability

    def open_newest(self, table: TableSpec, epoch: int) -> Any:
        self.asked.append(epoch)
        rows = [epoch] * (epoch in self._epochs)
        return SimpleNamespace(read=lambda _after: rows, close=lambda: None)


class Witness:
    """A witness's folder in memory."""

    url = "ssh://w/folder"

    def __init__(self) -> None:
        self._runs: dict[str, tuple[bytes, bytes]] = {}

    def add(self, manifest: Manifest, *events: object, acked: bool = True) -> None:
        log = LogMaker(manifest.run_id)
        if acked:
            log.add_acks([Ack(1, 1, 1, 1)])
        for event in events:
            log.add_event(event)
        self._runs[manifest.run_id] = stored.to_bytes(manifest), log.data()

    def unjudged(self) -> Sequence[str]:
        return list(self._runs)

    def manifest(self, run_id: str) -> bytes:
        return self._runs[run_id][0]

    def read(self, run_id: str) -> Iterator[bytes]:
        yield self._runs[run_id][1]


def rig_of(server: Server, witness: Witness, runs: Path) -> Rig:
    nothing: Any = None
    parts: Any = server, witness
    return Rig(site_of(parts[0]), parts[1], FrameLogReader(), nothing, runs)


def is_refused(server: Server, witness: Witness, runs: Path) -> bool:
    try:
        require_none_on_witness(rig_of(server, witness, runs))
    except UsageError as error:
        assert error.id is ErrorId.RUN_NOT_JUDGED
        return True
    return False


@pytest.mark.parametrize(
    ("events", "acked", "facts", "cut"),
    [
        pytest.param([], True, FACTS, False, id="the server did not start anew"),
        pytest.param([], True, RESTARTED, True, id="it did since"),
        pytest.param([], False, RESTARTED, False, id="before the load"),
        pytest.param([ANNOUNCED], True, FACTS, True, id="announced"),
        pytest.param([ANNOUNCED, left(NOT_CUT)], True, RESTARTED, False, id="not cut"),
        pytest.param([left(CUT)], True, FACTS, True, id="cut"),
        pytest.param([{**left(CUT), "load": "{}"}], True, FACTS, True, id="damaged"),
    ],
)
def test_without_its_folder_a_run_is_known_by_the_witness(
    events: list[object], acked: bool, facts: ServerFacts, cut: bool, tmp_path: Path
) -> None:
    witness = Witness()
    witness.add(MANIFEST, *events, acked=acked)
    assert is_refused(Server(facts), witness, tmp_path) is cut


def ended_uncut(run: RunFolder) -> None:
    run.write_cut_asked(CutAsked(1))
    run.write_load(NOT_CUT)


def ended_cut(run: RunFolder) -> None:
    run.write_load(CUT)


def lost_at_the_cut(run: RunFolder) -> None:
    run.write_cut_asked(CutAsked(1))


def was_read(run: RunFolder) -> None:
    run.write_load(CUT)
    run.write_after(after_of(FACTS))


SAYS_CUT, SAYS_NOT = [ANNOUNCED, left(CUT)], [left(NOT_CUT)]


@pytest.mark.parametrize(
    ("note", "events", "cut"),
    [
        (ended_uncut, [ANNOUNCED], False),
        (ended_uncut, SAYS_CUT, False),
        (ended_cut, SAYS_NOT, True),
        (lost_at_the_cut, [], True),
        (lost_at_the_cut, SAYS_NOT, True),
        (was_read, SAYS_CUT, False),
    ],
)
def test_where_the_folder_of_a_run_is_here_its_records_decide(
    note: Callable[[RunFolder], None], events: list[object], cut: bool, tmp_path: Path
) -> None:
    """They are on disk before the witness is told, and are the client's own."""
    note(RunFolder.create(tmp_path, MANIFEST))
    witness = Witness()
    witness.add(MANIFEST, *events)
    facts = FACTS if cut else RESTARTED
    assert is_refused(Server(facts), witness, tmp_path) is cut


@pytest.mark.parametrize(
    ("note", "name"),
    [
        (ended_uncut, "load.json"),
        (lost_at_the_cut, "cut.json"),
        (was_read, "after.json"),
    ],
)
@pytest.mark.parametrize(("events", "cut"), [(SAYS_CUT, True), (SAYS_NOT, False)])
def test_where_a_record_is_damaged_the_witness_decides(
    note: Callable[[RunFolder], None],
    name: str,
    events: list[object],
    cut: bool,
    tmp_path: Path,
) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    note(run)
    (run.path / name).write_bytes(b"{")
    witness = Witness()
    witness.add(MANIFEST, *events)
    assert is_refused(Server(), witness, tmp_path) is cut


def test_a_run_of_which_no_record_is_here_is_known_by_the_witness(
    tmp_path: Path,
) -> None:
    RunFolder.create(tmp_path, MANIFEST)
    witness = Witness()
    witness.add(MANIFEST)
    assert not is_refused(Server(), witness, tmp_path)
    assert is_refused(Server(RESTARTED), witness, tmp_path)


def test_the_shorter_remedy_is_named(tmp_path: Path) -> None:
    """The folder, where it is here: the witness would refuse to make it once more."""
    witness = Witness()
    witness.add(MANIFEST, ANNOUNCED)
    rig = rig_of(Server(), witness, tmp_path)
    clean = f"dbcheck clean --witness {witness.url} --run {MANIFEST.run_id}"
    with refused(ErrorId.RUN_NOT_JUDGED, UsageError) as caught:
        require_none_on_witness(rig)
    of_witness = f"reconcile --witness {witness.url} --target"
    assert of_witness in caught.value.hint
    run = RunFolder.create(tmp_path, MANIFEST)
    with refused(ErrorId.RUN_NOT_JUDGED, UsageError) as caught_here:
        require_none_on_witness(rig)
    assert f"reconcile {run.path}." in caught_here.value.hint
    assert of_witness not in caught_here.value.hint
    assert clean in caught.value.hint and clean in caught_here.value.hint


@pytest.mark.parametrize("is_here", [False, True])
@pytest.mark.parametrize("flags", [("--identity", "a key"), ("--name", "db 1")])
def test_the_remedy_is_a_command_that_dbcheck_takes(
    flags: tuple[str, ...], is_here: bool, tmp_path: Path
) -> None:
    """With a name no URL is taken: the inventory has them."""
    witness = Witness()
    witness.add(MANIFEST, ANNOUNCED)
    runs = tmp_path / "my runs"
    if is_here:
        RunFolder.create(runs, MANIFEST)
    rig = replace(rig_of(Server(), witness, runs), reconcile_flags=flags)
    with refused(ErrorId.RUN_NOT_JUDGED, UsageError) as caught:
        require_none_on_witness(rig)
    words = shlex.split(caught.value.hint.partition("dbcheck ")[2].partition(". ")[0])
    if is_here:
        assert words == ["reconcile", str(runs / MANIFEST.run_id), *flags]
        return
    urls = ["--witness", witness.url, "--target", Server.target]
    start = ["reconcile"] if flags[0] == "--name" else ["reconcile", *urls]
    assert words == [*start, "--run", MANIFEST.run_id, *flags]


def test_the_folder_of_a_run_that_is_pending_is_quoted(tmp_path: Path) -> None:
    runs = tmp_path / "my runs"
    ended_cut(RunFolder.create(runs, MANIFEST))
    server: Any = Server()
    with refused(ErrorId.RUN_NOT_JUDGED, UsageError) as caught:
        require_none_pending(runs, server)
    assert f"reconcile '{runs / MANIFEST.run_id}'" in caught.value.hint


def pending(number: int, identity: dict[str, str]) -> Manifest:
    run_id = f"20260102-030405-{number:06x}"
    facts = replace(FACTS, identity=identity)
    return replace(having(MANIFEST, facts=facts), run_id=run_id, epoch=number)


def test_a_server_is_asked_once_however_many_runs_are_pending(tmp_path: Path) -> None:
    """Those of other servers too, which only its rows tell from its own."""
    others = [pending(n, {"system_identifier": f"not {n}"}) for n in range(1, 4)]
    witness = Witness()
    for one in others:
        witness.add(one, ANNOUNCED)
        RunFolder.create(tmp_path, one).write_cut_asked(CutAsked(1))
    asked = ["facts", "table", 1, 2, 3]
    server = Server()
    assert not is_refused(server, witness, tmp_path)
    assert server.asked == asked
    server = Server()
    engine: Any = server
    require_none_pending(tmp_path, engine)
    assert server.asked == asked
    assert is_refused(Server(epochs=[3]), witness, tmp_path)
