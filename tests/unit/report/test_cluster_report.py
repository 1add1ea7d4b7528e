"""What reports say of the nodes of a cluster: who wrote, was cut, was read, lost."""

from __future__ import annotations

from typing import Any

import pytest
from junitparser import JUnitXml

from dbcheck.judge.result import RunResult
from dbcheck.report.formats import format_report
from dbcheck.report.subject import RunSubject
from dbcheck.report.verdict import verdict_report
from dbcheck.report.words.cluster import list_facts, list_nodes, name_nodes
from dbcheck.report.words.summary import summarize_run
from tests.kit.reports import CLUSTER, printed, run_result

FORMATS = ("text", "html", "md", "junit")
SAME = {"rows": 10, "differing": 0, "extra": 0}
GROUP = {
    **{"topology": "galera", "promise": "all", "read": "n1", "promoted_by": None},
    **{"left": {}, "standbys": ["n2"]},
}


def result_of(verdict: str = "FAIL", cluster: Any = None, **changed: Any) -> RunResult:
    counts = {"confirmed": 10, "kept": 7, "recovered": 0, "unconfirmed": 0}
    values = {"verdict": verdict, **counts, "cluster": {**CLUSTER, **(cluster or {})}}
    return run_result({**values, **changed})


def member(**changed: Any) -> dict[str, Any]:
    return {"settings": {}, "awaited": None, "cut": True, "compared": None, **changed}


def rows_of(result: RunResult) -> dict[str, list[str]]:
    return {name: list(cells) for name, *cells in list_nodes(result)}


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_names_the_nodes_and_what_became_of_each(kind: str) -> None:
    result = result_of()
    text = format_report(RunSubject(result), kind).replace("\\", "")
    if kind == "text":
        text = printed(verdict_report(result))
    for told in (
        "n1 (writer, cut), n2 (took over), n3",
        "took the load",
        "synchronous standby",
        "standby, not synchronous",
        "took over; read",
        "7 of 10 acknowledged commits intact",
        "3 acknowledged commits and 1 unacknowledged commit that n2 lacks",
        "promoted by dbcheck's own statement",
        "synchronous_commit = on",
    ):
        assert told in text.replace("&#39;", "'"), told


@pytest.mark.parametrize("kind", FORMATS)
def test_a_single_server_has_no_table_of_nodes(kind: str) -> None:
    text = format_report(RunSubject(run_result({"verdict": "FAIL"})), kind)
    assert "The cluster" not in text


def test_a_node_is_told_as_far_as_it_is_known() -> None:
    assert rows_of(result_of()) == {
        "n1": [
            "took the load",
            "yes",
            "started alone, after the reading",
            "3 acknowledged commits and 1 unacknowledged commit that n2 lacks",
        ],
        "n2": [
            "synchronous standby",
            "no",
            "took over; read",
            "7 of 10 acknowledged commits intact",
        ],
        "n3": ["standby, not synchronous", "no", "-", "not read"],
    }
    unread = rows_of(result_of("INCONCLUSIVE", {"left": {}}, confirmed=None))
    assert unread["n1"][2:] == ["power not restored", "not read"]
    assert unread["n2"][2:] == ["took over", "not compared"]
    back = rows_of(result_of("INCONCLUSIVE", {"returned": True}))
    assert back["n1"][2] == "back beside n2, before the reading"


def test_a_result_that_was_stored_without_the_nodes_is_told() -> None:
    found = rows_of(result_of("PASS", {"topology": None, "members": {}}))
    assert found["n1"][:2] == ["took the load", "not known"]
    assert found["n3"] == ["member", "not known", "-", "not read"]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ((0, 0), "none that n2 lacks"),
        ((2, 0), "2 acknowledged commits that n2 lacks"),
        ((0, 1), "1 unacknowledged commit that n2 lacks"),
    ],
)
def test_what_a_node_has_alone(left: tuple[int, int], told: str) -> None:
    behind, extra = left
    one = result_of("PASS", {"left": {"n1": {"behind": behind, "extra": extra}}})
    assert rows_of(one)["n1"][3] == told


@pytest.mark.parametrize(
    ("compared", "told"),
    [
        (SAME, ["came back; compared", "the same 10 rows as n1"]),
        (
            {**SAME, "differing": 2},
            ["came back; compared", "10 rows of this run; 0 that n1 lacks, and 2 that"],
        ),
        ({"not_done": "it did not start"}, ["-", "not compared: it did not start"]),
        ({"failure": "page"}, ["came back; compared", "its rows could not be read"]),
        (None, ["-", "not read"]),
    ],
)
def test_the_nodes_of_a_group_are_compared(compared: Any, told: list[str]) -> None:
    members = {"n1": member(), "n2": member(compared=compared)}
    found = rows_of(result_of("PASS", {**GROUP, "members": members}))
    assert found["n1"][:3] == ["took the load", "yes", "came back; read"]
    assert found["n2"][:2] == ["member", "yes"]
    fate, rows = found["n2"][2:]
    assert (fate, rows[: len(told[1])]) == (told[0], told[1])


def test_nodes_that_are_set_alike_share_a_line() -> None:
    settings = {"sync_binlog": "1", "pc.ignore_sb": "no"}
    alike = {name: member(settings=settings) for name in ("n1", "n2")}
    cluster = result_of("PASS", {**GROUP, "members": alike}).cluster
    assert cluster is not None
    told = dict(list_facts(cluster))
    assert told["settings of n1, n2"] == "sync_binlog = 1, pc.ignore_sb = no"


def test_the_first_box_names_few_of_many_nodes() -> None:
    many = [f"n{number}" for number in range(2, 101)]
    cluster = result_of("PASS", {"standbys": many}).cluster
    assert cluster is not None
    assert name_nodes(cluster) == (
        "n1 (writer, cut), n2 (took over), n3, n4, n5 and 95 more"
    )


def test_what_to_do_next_fits_a_cluster() -> None:
    item = {"item": "settings for the promise", "status": "absent", "reason": "x"}
    broken = result_of(evidence=[{**item, "required": True}])
    assert "Change the settings named below" in summarize_run(broken).action
    assert "Do not rely on this cluster." in summarize_run(result_of()).action
    # A campaign is refused for a cluster.
    again = summarize_run(result_of("PASS")).action
    assert "campaign" not in again
    assert "Cut again: dbcheck run" in again


def test_a_failure_of_a_cluster_tells_ci_who_has_what() -> None:
    suite = next(
        iter(
            JUnitXml.fromstring(
                format_report(RunSubject(result_of()), "junit").encode()
            )
        )
    )
    (case,) = suite
    (failure,) = case.result
    assert "n2: before the cut: synchronous standby, cut: no" in failure.text
