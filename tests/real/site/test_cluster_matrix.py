"""dbcheck matrix GROUP: a cluster that is rebuilt between the cuts of its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.clusters import cluster_of, dbcheck
from tests.kit.rebuilding import REPLACED, write_inventory


def run_matrix(
    folder: Path, engine: str, *words: str, **given: Any
) -> tuple[int, list[dict[str, Any]], str]:
    """Return the exit code, the rows and what was said of a matrix on a cluster."""
    with cluster_of(folder, engine=engine) as (cluster, _):
        file = write_inventory(folder, cluster, REPLACED[engine], **given)
        done = dbcheck(
            *("matrix", "pair", "--cuts", 1, "--seed", 3, "--json", *words),
            *("--inventory", file, "--runs", folder / "runs"),
        )
    rows = json.loads(done.stdout)["rows"] if done.stdout else []
    return done.returncode, rows, done.stderr


def list_nodes(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the writer and the reader of each row's cycle."""
    clusters = [row["cycles"][0]["cluster"] for row in rows]
    return [(one["writer"], one["read"]) for one in clusters]


@pytest.mark.timeout(600)
def test_a_row_that_loses_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    code, rows, said = run_matrix(
        tmp_path, "postgresql", "--vary", "relaxed=true,false"
    )
    assert code == 0, said
    lossy, safe = rows
    assert lossy["cycles"][0]["control"]
    assert lossy["lost"] > 0
    assert (safe["verdict"], safe["lost"]) == ("PASS", 0)
    assert list_nodes(rows) == [("node1", "node2"), ("node2", "node1")]


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_the_settings_of_a_row_are_those_of_the_sessions_on_any_writer(
    tmp_path: Path,
) -> None:
    name = "synchronous_commit"
    varied = f"setting.{name}=on,remote_write"
    code, rows, said = run_matrix(tmp_path, "postgresql", "--vary", varied)
    assert code == 0, said
    assert list_nodes(rows) == [("node1", "node2"), ("node2", "node1")]
    seen = [
        json.loads(
            (tmp_path / "runs" / row["cycles"][0]["run"] / "manifest.json").read_text()
        )
        for row in rows
    ]
    values = [
        one["nodes"][one["writer_name"]]["facts"]["settings"][name] for one in seen
    ]
    assert values == ["on", "remote_write"]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("engine", "words", "given", "why"),
    [
        (
            "postgresql",
            ("setting.synchronous_standby_names=x",),
            {},
            "cannot be changed",
        ),
        ("mysql", ("setting.sync_binlog=0,1",), {}, "cannot be set for a session"),
        (
            *("mysql", ("relaxed=true",)),
            *({"dbcheck_survives": "writer"}, "no control with the promise writer"),
        ),
    ],
)
def test_a_row_that_no_cluster_can_take_is_refused_before_a_cut(
    tmp_path: Path, engine: str, words: tuple[str, ...], given: Any, why: str
) -> None:
    code, rows, said = run_matrix(tmp_path, engine, "--vary", *words, **given)
    assert code == (4 if rows else 2), said
    assert why in " ".join([said, *(row["error"] or "" for row in rows)])
    assert not any(row["cycles"] for row in rows)
    assert not list(tmp_path.glob("runs/*/manifest.json"))
