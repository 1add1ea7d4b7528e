"""Records and a preflight of a site with more than one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, RunFormatError, UsageError
from dbcheck.cycle.host import HostCanaries
from dbcheck.cycle.preflight import before_load
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.judge.case import Case
from dbcheck.judge.server import judge_restarted
from dbcheck.model.cluster import ONLY_NODE, SiteKind
from dbcheck.model.cut import CutClass, SwitchKind
from dbcheck.model.records import NodeAfter, NodeAtTheCut, RestoreRecord
from dbcheck.ports.site import Node
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from tests.kit.bare_engine import BareEngine
from tests.kit.host_samples import BEFORE
from tests.kit.nodes import after_of, having
from tests.kit.partial_rig import RecordingListener
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, LOAD, MANIFEST


def server(name: str) -> Any:
    facts = replace(FACTS, identity={"node": name})
    return BareEngine(
        target=name,
        family="postgresql",
        facts=lambda: facts,
        places=lambda tables: (),
    )


def node(name: str, cut_class: CutClass) -> Node:
    power: Any = SimpleNamespace(kind=SwitchKind.MANUAL, cut_class=cut_class)
    return Node(server(name), power)


NODES = {"a": node("a", CutClass.AC), "b": node("b", CutClass.RESET)}
RIG: Any = SimpleNamespace(
    site=SimpleNamespace(
        nodes=NODES, promise=None, writer_name="a", kind=SiteKind.SINGLE
    ),
    listener=RecordingListener(),
    audited=set(),
    lab={"cut": "drive"},
    witness_pods=None,
    cuts_power=True,
)


def described(canaries: dict[str, HostCanaries]) -> Mapping[str, Any]:
    witness: Any = None
    return before_load._describe_nodes(RIG, MANIFEST.workload, witness, canaries)


def test_each_node_is_described_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    running: dict[str, Any] = {}
    monkeypatch.setattr(
        before_load, "inspect_host", lambda each, *_, **__: (BEFORE, each.engine.target)
    )
    found = described(running)
    assert {name: each.target for name, each in found.items()} == {"a": "a", "b": "b"}
    assert found["b"].facts.identity == {"node": "b"}
    assert found["b"].cut_class is CutClass.RESET
    assert running == {"a": "a", "b": "b"}


def test_what_runs_on_the_first_is_known_if_the_second_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def inspected(each: Node, *_: object, **__: object) -> Any:
        if each.engine.target == "b":
            raise HostError("b does not answer", id=ErrorId.HOST_UNREACHABLE)
        return BEFORE, "running"

    running: dict[str, Any] = {}
    monkeypatch.setattr(before_load, "inspect_host", inspected)
    with refused(ErrorId.HOST_UNREACHABLE, HostError, naming="b does not answer"):
        described(running)
    assert running == {"a": "running"}


@pytest.mark.parametrize(
    ("names", "writer", "why"),
    [
        ([], ONLY_NODE, "is not one of the nodes"),
        ([ONLY_NODE], "another", "is not one of the nodes"),
        ([ONLY_NODE, "standby"], ONLY_NODE, "a single server has one node"),
        (["primary"], "primary", "a single server has one node"),
        ([ONLY_NODE, "n" * 101], ONLY_NODE, "the name of a node is too long"),
        ([ONLY_NODE, "\x1b[2J"], ONLY_NODE, "cannot be printed"),
        (map(str, range(101)), "0", "at most 100 nodes, and not 101"),
    ],
)
def test_a_manifest_of_no_site_is_refused(
    names: Iterable[str], writer: str, why: str
) -> None:
    nodes = dict.fromkeys(names, MANIFEST.writer)
    with pytest.raises(ValueError, match=why):
        replace(MANIFEST, nodes=nodes, writer_name=writer)


def test_another_node_than_the_one_that_was_cut_need_not_restart() -> None:
    after = after_of(FACTS)
    case = Case(MANIFEST, LOAD, None, after)
    assert judge_restarted(case) is not None
    found = {**after.nodes, "standby": NodeAfter(FACTS)}
    promoted = replace(after, nodes=found, reader_name="standby")
    assert judge_restarted(replace(case, after=promoted)) is None


def test_what_was_found_must_hold_the_node_that_was_read() -> None:
    with pytest.raises(ValueError, match="nothing was found of the node 'standby'"):
        replace(after_of(FACTS), reader_name="standby")


def test_a_record_of_a_node_that_the_manifest_lacks_is_damaged(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    strange = {"standby": NodeAtTheCut(None)}
    run.write_load(replace(LOAD, nodes={**LOAD.nodes, **strange}))
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming=("load.json", "standby")
    ):
        run.load()
    run.write_restore(RestoreRecord({"standby": 1.0}))
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming=("restore.json", "standby")
    ):
        run.restore()
    after = after_of(FACTS)
    run.write_after(replace(after, nodes={**after.nodes, "standby": NodeAfter(None)}))
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming=("after.json", "standby")
    ):
        run.after()


def test_a_record_that_lacks_a_node_is_damaged(tmp_path: Path) -> None:
    """But for one of the restore: a node that was not cut is left out there."""
    run = RunFolder.create(tmp_path, MANIFEST)
    run.write_load(replace(LOAD, nodes={}))
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming=("load.json", "server")
    ):
        run.load()
    run.write_restore(RestoreRecord({}))
    assert run.restore() == RestoreRecord({})


def test_a_load_that_a_witness_gives_is_not_stored_with_a_strange_node(
    tmp_path: Path,
) -> None:
    """It would stay, and no judgement of the run could be had any more."""
    content = stored.to_bytes(MANIFEST)
    run = RunFolder.recall(tmp_path, MANIFEST.run_id, content, None, "its manifest")
    strange = replace(LOAD, nodes={**LOAD.nodes, "standby": NodeAtTheCut(None)})
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming=("acks.log", "standby")
    ):
        run.recall_load(stored.to_bytes(strange), None, "acks.log")
    assert run.load() is None


def test_a_run_of_another_site_is_not_reconciled(tmp_path: Path) -> None:
    site = SimpleNamespace(
        kind=MANIFEST.site, promise=None, writer_name="a", nodes=NODES
    )
    rig: Any = SimpleNamespace(site=site)
    with refused(
        ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming=("single", "server")
    ):
        reconcile_run(rig, RunFolder.create(tmp_path, MANIFEST), MANIFEST)


def test_a_case_is_about_the_node_that_took_the_load() -> None:
    """What was seen of another node is not held against it."""
    seen = replace(LOAD.nodes[ONLY_NODE], heard_us=7)
    other = NodeAtTheCut(None, heard_us=9)
    load = replace(LOAD, nodes={"standby": other, ONLY_NODE: seen})
    after = after_of(FACTS)
    after = replace(after, nodes={**after.nodes, "standby": NodeAfter(None)})
    restore = RestoreRecord({"standby": 1.0, ONLY_NODE: 2.0})
    case = Case(MANIFEST, load, restore, after)
    assert (case.at_the_cut.heard_us, case.off_s) == (7, 2.0)
    assert case.writer is MANIFEST.writer


def test_nothing_is_known_of_a_node_that_no_record_names() -> None:
    load = replace(LOAD, nodes={})
    case = Case(MANIFEST, load, RestoreRecord({}), having(after_of(FACTS)))
    assert (case.cut, case.off_s, case.host) == (None, None, None)
