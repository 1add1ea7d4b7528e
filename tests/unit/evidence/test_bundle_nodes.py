"""Bundles of clusters in which the names of the nodes are replaced.

A bundle of a run must not depend on how its nodes were called: that is the same as that
nothing of a name is in it, and that no other word was taken for one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.evidence.nodes import NodeNames
from dbcheck.evidence.scrub import Scrub
from dbcheck.evidence.verify import verify
from dbcheck.model.records import LoadRecord
from dbcheck.model.verdict import Verdict
from dbcheck.model.witness import LOAD_EVENT
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of, contents
from tests.kit.pods import POD
from tests.kit.refusals import refused
from tests.kit.renamed_nodes import NODES, RECORDED, renamed_run

PLAIN = ("zeta-q7", "zeta-q8")
SAID = (
    'replication slot "slot_{}" is active for PID 7',
    "https://{}.corp.example:8008/patroni",
    "could not connect to {}: refused",
    "primary_conninfo = 'host={} application_name={}'",
    "/srv/pg-{}-data/base",
    "8f3c7c1e-db01-cafe-8f3c-0123456789ab at 0/DB1",
)


def redacted(folder: Path, *names: str) -> dict[str, bytes]:
    """Return the files of a bundle of the run, which must verify as it was judged."""
    folder.mkdir()
    run = renamed_run(folder, names, SAID)
    index = bundle_of(run.path, folder / "b.tar", redact=True)
    assert index.verdict is Verdict.PASS
    found = verify(folder / "b.tar", FrameLogReader())
    assert found.same, found.differences
    assert found.judged_again == 1
    return dict(contents(folder / "b.tar"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return redacted(tmp_path_factory.mktemp("plain") / "run", *PLAIN)


def test_no_byte_of_a_bundle_has_the_name_of_a_node(plain: dict[str, bytes]) -> None:
    run = json.loads((RECORDED / "manifest.json").read_text())["run_id"]
    assert f"runs/{run}/survivors-ledger-on-node-1.bin" in plain
    assert b"slot_node-1" in plain[f"runs/{run}/load.json"]
    for name, content in plain.items():
        assert b"zeta" not in (name.encode() + content).lower(), name


@pytest.mark.parametrize(
    "names",
    [
        *(("db1", "db10"), ("db10", "db1"), ("node2", "node1"), ("berlin", "paris")),
        *(("cafe", "db01"), ("PG1", "pg-2"), ("a b", "c'd"), ('q"x', "y\\z")),
        *(("münchen", "köln"), ("40c2a3", "x9"), ("east", "west")),
    ],
)
def test_a_bundle_does_not_depend_on_the_names(
    tmp_path: Path, plain: dict[str, bytes], names: tuple[str, str]
) -> None:
    found = redacted(tmp_path / "run", *names)
    assert found.keys() == plain.keys()
    assert [name for name in plain if found[name] != plain[name]] == []


@pytest.mark.parametrize(
    "names",
    [
        ("db-1.corp.example", "db-2.corp.example"),
        *(("x/y", "..z"), ("a.b7", "a-b7"), ("10.11.12.13", "10.11.12.14")),
    ],
)
def test_names_that_are_more_than_one_word_go_too(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """Of a name with a domain, other hosts of that domain get names of their own."""
    for name, content in redacted(tmp_path / "run", *names).items():
        text = (name.encode() + content).lower()
        for one in (*names, "db-1", "db-2"):
            assert one.encode() not in text, (one, name)
        assert "db-" not in names[0] or b"corp" not in text, name


@pytest.mark.parametrize(
    ("name", "naming"),
    [
        *((name, name) for name in ("writer", "standby", "a", "on", "server", "42")),
        *((name, name) for name in ("row_id", "sha256", "v1", "p50", "debian")),
        *((name, name) for name in ("ledger", "data", "loop1", "redo", "ready")),
        *((name, name) for name in ("PostgreSQL", "synchronous_commit", "ext4")),
        *((name, name) for name in ("host-1", "0/DB1", "20261130-181145-40c2a3")),
        ("PARIS", "differ only in their case"),
    ],
)
def test_a_node_with_the_name_of_something_else_is_refused(
    tmp_path: Path, name: str, naming: str
) -> None:
    run = renamed_run(tmp_path, ("paris", name), SAID)
    bundle_of(run.path, tmp_path / "b.tar")
    with refused(ErrorId.REDACTION_NOT_POSSIBLE, UsageError, naming=naming):
        bundle_of(run.path, tmp_path / "c.tar", redact=True)


def test_a_node_may_have_the_name_of_its_pod(tmp_path: Path) -> None:
    run = renamed_run(tmp_path, (POD.name, "orders-2"), SAID)
    manifest = run.manifest()
    nodes = {**manifest.nodes, POD.name: replace(manifest.writer, pod=POD)}
    (run.path / "manifest.json").write_bytes(
        stored.to_bytes(replace(manifest, nodes=nodes))
    )
    bundle_of(run.path, tmp_path / "b.tar", redact=True)
    assert verify(tmp_path / "b.tar", FrameLogReader()).same
    for name, content in contents(tmp_path / "b.tar"):
        assert POD.name.encode() not in content, name
        if name.endswith("manifest.json"):
            shown = json.loads(content)["nodes"]
    assert list(shown) == ["node-1", "node-2"]
    assert shown["node-1"]["pod"]["name"] == "pod-1"


def test_the_record_in_the_witness_s_log_is_that_of_the_bundle(
    plain: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name, content in plain.items():
        (folder / Path(name).name).write_bytes(content)
    run = RunFolder.open(folder)
    load, before = run.load(), RunFolder.open(RECORDED).load()
    assert load is not None
    assert before is not None
    assert load.watermarks != before.watermarks
    facts = FrameLogReader().facts(
        run.acks_path(), run.manifest().run_id, 0, load.watermarks[0]
    )
    (event,) = [one for one in facts.events if one["event"] == LOAD_EVENT]
    left = stored.from_bytes(event["load"].encode(), LoadRecord, "the log")
    assert replace(left, watermarks=load.watermarks) == load
    assert event.keys() == {"event", "load"}  # the seal is of the record as it was
    assert facts.acks == sum(load.acked.values())


def test_a_log_is_copied_as_it_is_where_names_stay(tmp_path: Path) -> None:
    run = renamed_run(tmp_path, PLAIN)
    bundle_of(run.path, tmp_path / "b.tar")
    shown = {Path(name).name: data for name, data in contents(tmp_path / "b.tar")}
    assert shown["acks.log"] == run.acks_path().read_bytes()
    assert "survivors-ledger-on-zeta-q7.bin" in shown


def test_a_name_in_a_torn_frame_goes(tmp_path: Path) -> None:
    run = renamed_run(tmp_path, PLAIN)
    with run.acks_path().open("ab") as file:
        file.write(b'half of {"nodes": {"zeta-q7"')
    bundle_of(run.path, tmp_path / "b.tar", redact=True)
    for name, content in contents(tmp_path / "b.tar"):
        assert b"zeta" not in content, name
    assert verify(tmp_path / "b.tar", FrameLogReader()).same


def test_a_name_in_a_damaged_log_is_refused(tmp_path: Path) -> None:
    run = renamed_run(tmp_path, PLAIN)
    content = bytearray(run.acks_path().read_bytes())
    content[40] ^= 1
    run.write_acks(0, [bytes(content)])
    bundle_of(run.path, tmp_path / "b.tar")
    with refused(ErrorId.REDACTION_NOT_POSSIBLE, UsageError, naming="witness's log"):
        bundle_of(run.path, tmp_path / "c.tar", redact=True)


def test_a_name_is_found_inside_of_words_and_in_no_digest() -> None:
    scrub = Scrub([], [], ["db1", "pg-2", "db_10"])
    assert (
        scrub.text("db1_slot pg_2 xpg-2x DB1.") == "node-1_slot node-2 xnode-2x node-1."
    )
    for text in ("0xdb1", "adb1c", "8f3c7c1e-0db1-4afe-8f3c-0123456789ab", "0/DB1"):
        assert scrub.text(text) == text
    assert scrub.text("db10, DB_10") == "host-1, node-3"
    assert scrub.text("postgresql://u@db1:5432/d") == "postgresql://u@node-1:5432/d"
    assert scrub.text("db1.corp is up") == "host-2 is up"


def test_what_is_shown_is_no_name_that_there_is() -> None:
    names = NodeNames.of(["node-2", "b"], ["node-1", "NODE-3"])
    assert names.shown == {"node-2": "node-4", "b": "node-5"}
    scrub = Scrub([], ["node-1"], ["node-2", "b1"])
    shown = [scrub.text(name) for name in ("node-1", "node-2", "b1", "ssh://node-1")]
    assert shown == ["host-1", "node-3", "node-4", "ssh://host-1"]
    assert scrub.record({"b1": shown}) == {"node-4": shown}  # twice is as good as once


def test_the_recorded_run_is_one_of_the_lab_s() -> None:
    assert tuple(RunFolder.open(RECORDED).manifest().nodes) == NODES
