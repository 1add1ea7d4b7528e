"""dbcheck run GROUP: a cluster of an inventory."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.engines.registry import open_engine
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cluster import Promise
from dbcheck.power.kinds.command import FaultByPrograms, PromotionProgram
from dbcheck.runs.folder import RunFolder
from tests.kit.clusters import cluster_of, dbcheck, inventory_of
from tests.kit.refusals import refused

NODE: Any = None
CLUSTER: dict[str, Any] = {
    "dbcheck_topology": "streaming",
    "dbcheck_survives": "writer-gone",
    "dbcheck_sessions": 4,
}
PROMOTES = """
import sys
from dbcheck.engines.registry import open_engine

assert sys.argv[3] == "node2"
open_engine(sys.argv[1], sys.argv[2]).promote()
"""


@pytest.mark.wide
@pytest.mark.parametrize("by", ["sql", "command"])
def test_a_cluster_is_named_by_its_group(tmp_path: Path, by: str) -> None:
    with cluster_of(tmp_path) as (cluster, _):
        standby, changed = cluster.labs["node2"], {}
        if by == "command":
            words = [sys.executable, "-c", PROMOTES]
            words += [standby.target_url, standby.password]
            changed = {"dbcheck_promoted_by": by, "dbcheck_promote": words}
        file = inventory_of(tmp_path, "pair", cluster, **CLUSTER, **changed)
        done = dbcheck(
            *("run", "pair", "--inventory", file, "--json"),
            *("--runs", tmp_path / "runs", "--seed", 3),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["cluster"]["read"] == "node2"
    assert result["cluster"]["promoted_by"] == by
    assert result["cluster"]["left"] == {}  # a real cluster's writer stays off
    assert "node1 stays off: it must rejoin as a standby" in done.stderr


@pytest.mark.wide
def test_the_hosts_of_an_inventory_are_cut_one_after_the_other(tmp_path: Path) -> None:
    """The flag wins over the inventory."""
    with cluster_of(tmp_path, 3, Promise.ALL, DriveSpec()) as (cluster, _):
        changed = {"dbcheck_survives": "all", "dbcheck_stagger_s": 60}
        file = inventory_of(tmp_path, "pair", cluster, **CLUSTER | changed)
        words = ("run", "pair", "--inventory", file, "--json", "--stagger", 2)
        done = dbcheck(*words, "--runs", tmp_path / "runs", "--seed", 3)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["cluster"]["stagger_s"] == 2
    load = RunFolder.open(tmp_path / "runs" / result["run"]).load()
    assert load is not None
    cuts = {name: node.cut for name, node in load.nodes.items()}
    at_us = sorted((cut.exact_us or 0, name) for name, cut in cuts.items() if cut)
    assert [name for _, name in at_us][0] == "node1"
    assert 1.9e6 <= at_us[-1][0] - at_us[0][0] < 10e6


@pytest.mark.wide
def test_a_single_host_is_not_staggered(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (cluster, _):
        file = inventory_of(tmp_path, "pair", cluster)
        done = dbcheck("run", "node1", "--inventory", file, "--stagger", 2)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "a single server cannot be staggered" in done.stderr


@pytest.mark.wide
def test_what_is_for_one_host_refuses_a_cluster(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (cluster, _):
        file = inventory_of(tmp_path, "pair", cluster, **CLUSTER)
        for words in (
            ("clean", "pair"),
            ("run", "pair", "--control"),
            ("campaign", "pair", "--cuts", "2", "--control"),
            ("campaign", "pair", "--cuts", "2"),  # nobody rebuilds it
        ):
            done = dbcheck(*words, "--inventory", file)
            assert done.returncode == 2, done.stdout + done.stderr
            assert "cluster" in done.stderr


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"dbcheck_writer": "node9"}, "'node9', which is not one of its hosts"),
        ({"dbcheck_promoted_by": "command"}, "dbcheck_promote goes with"),
        ({"dbcheck_promote": ["true"]}, "dbcheck_promote goes with"),
        ({"dbcheck_topology": "other"}, "dbcheck_topology"),
        ({"dbcheck_topology": "galera"}, "needs 3 nodes or more"),
        ({"dbcheck_stagger_s": 3}, "writer-gone cannot be staggered"),
        ({"dbcheck_stagger_s": 61}, "dbcheck_stagger_s"),
        ({"dbcheck_topology": "semi-sync"}, "it is a postgresql server"),
        (
            {
                "dbcheck_topology": "galera",
                "dbcheck_promoted_by": "command",
            },
            "no node of galera is promoted",
        ),
        ({"dbcheck_survives": "everything"}, "dbcheck_survives"),
    ],
)
def test_hosts_that_make_no_cluster_are_refused(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    host = {
        "dbcheck_target": "postgresql://dbcheck@{{ inventory_hostname }}/d",
        "dbcheck_witness": "file:/nowhere/{{ inventory_hostname }}",
    }
    hosts = dict.fromkeys(("node1", "node2"), host)
    given = {"dbcheck_writer": "node1", **CLUSTER, **changed}
    group = {"hosts": hosts, "vars": given}
    file = tmp_path / "inventory.yml"
    file.write_text(json.dumps({"all": {"children": {"pair": group}}}))
    done = dbcheck("run", "pair", "--inventory", file)
    assert done.returncode == 2
    assert why in done.stderr.replace("\n", " ")


def test_whatever_listens_counts_as_accepting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that starts, or refuses the login, has power."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        urls = [
            f"{scheme}://u@127.0.0.1:{port}/d" for scheme in ("postgresql", "mysql")
        ]
        urls.append(f"postgresql://u@/d?host=127.0.0.1:{port}")
        engines: list[Any] = [open_engine(url) for url in urls]
        assert all(engine.accepts() for engine in engines)
        monkeypatch.setenv("PGHOST", "127.0.0.1")
        monkeypatch.setenv("PGPORT", str(port))
        from_environment: Any = open_engine("postgresql:///d")
        assert from_environment.accepts()
    assert not any(engine.accepts() for engine in engines)
    at_socket: Any = open_engine("postgresql:///d?host=/run/postgresql")
    assert at_socket.accepts()


def test_a_program_that_promotes_gets_the_name_of_the_node() -> None:
    passes = "import sys; sys.exit(sys.argv[1:] != ['--now', 'db2'])"
    command = [sys.executable, "-c", passes, "--now"]
    PromotionProgram(command, 30).promote("db2", NODE)
    with refused(ErrorId.PROMOTION_COMMAND_FAILED, EngineError, naming="with 1"):
        PromotionProgram(command, 30).promote("db3", NODE)
    with refused(ErrorId.POWER_COMMAND_NOT_RUN, EngineError, naming="no-such-program"):
        PromotionProgram(["/no-such-program"], 30).promote("db2", NODE)


def test_programs_of_a_fault_get_the_name_of_the_node() -> None:
    passes = "import sys; sys.exit(sys.argv[1:] != [sys.argv[1], 'db2'])"
    begin, end = ([sys.executable, "-c", passes, word] for word in ("begin", "end"))
    fault = FaultByPrograms(begin, end)
    fault.require_programs()
    fault.begin("db2")
    fault.end("db2")
    FaultByPrograms(begin, end, "db2").begin("the only node")
    with refused(ErrorId.FAULT_NOT_BEGUN, EngineError, naming="with 1"):
        fault.begin("db3")
    with refused(ErrorId.FAULT_NOT_ENDED, EngineError, naming="with 1"):
        fault.end("db3")
    missing = FaultByPrograms(begin, ["/no-such-program"])
    with refused(ErrorId.FAULT_PROGRAM_MISSING, UsageError, naming="fault_end"):
        missing.require_programs()
    with refused(ErrorId.POWER_COMMAND_NOT_RUN, EngineError, naming="no-such-program"):
        missing.end("db2")


def test_a_program_of_a_fault_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FAULT_S", 0.3)
    fault = FaultByPrograms(["sleep", "60"], ["sleep", "60"])
    with refused(ErrorId.POWER_COMMAND_TOO_SLOW, EngineError, naming="than 0.3 s"):
        fault.begin("1")
