"""Runs that somebody made one by one: counted together, bundled, and judged again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dbcheck.base.error_ids import ErrorId
from tests.kit.users import User, run_dbcheck
from tests.kit.users import user as user


def make_run(user: User) -> Path:
    """Make a run whose cut counts; return its folder."""
    result = user.json("run", *user.rig, code=0)
    return user.folder / str(result["folder"])


def report_of(user: User, *runs: str) -> Any:
    """Return the report on *runs* as values."""
    return json.loads(user.run("report", *runs, "--format", "json", code=0))


def test_cuts_one_by_one_have_one_result_that_others_can_judge(user: User) -> None:
    made = [str(make_run(user)) for _ in range(2)]
    page = user.folder / "both.html"
    user.run("report", *made, "-o", str(page), code=0)
    assert "2 runs counted together" in page.read_text()
    (target,) = report_of(user, *made)["targets"]
    statistics = target["statistics"]
    assert (target["verdict"], statistics["cuts"], statistics["losses"]) == (
        "PASS",
        2,
        0,
    )
    assert target["chosen"] == {"folders": made, "beside": [], "blind": ""}
    user.run("bundle", *made, "-o", "both.tar", code=0)
    verified = user.json("verify", "both.tar", code=0)
    assert (verified["kind"], verified["judged_again"]) == ("runs", 2)
    assert verified["differences"] == []
    both = json.loads(user.run("report", "runs", "--format", "json", code=0))
    (server,) = both["servers"]
    assert [one["folder"] for one in server["checks"]] == [
        f"runs/{Path(run).name}" for run in reversed(made)
    ]
    user.run("report", "runs", "-o", "checks.html", code=0)
    assert "Checks over time" in (user.folder / "checks.html").read_text()
    # A third run lies beside them, and another configuration is no one of them.
    third = make_run(user)
    (target,) = report_of(user, *made)["targets"]
    assert [one["run"] for one in target["chosen"]["beside"]] == [third.name]
    other = user.json("run", *user.rig, "--sessions", "2", code=0)
    for verb in ("report", "bundle"):
        code, said = run_dbcheck(user.folder, verb, *made, other["folder"])
        assert code == 2
        assert f"[{ErrorId.RUNS_NOT_OF_ONE_SERVER.value}]" in said
        assert "sessions" in said
        code, said = run_dbcheck(user.folder, verb, made[0], made[0])
        assert code == 2
        assert f"[{ErrorId.NAME_GIVEN_TWICE.value}]" in said
