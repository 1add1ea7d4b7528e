"""The processes of a load, chosen by the client's cores, and what users see of them.

A lab's server has the client's cores, so a lab plays another host here, as where a
person cuts.
"""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.kit.users import User, said_until, user_of
from tests.kit.users import user as user

LARGE = "from dbcheck.runner import assemble; assemble.count_free_cores = lambda: 16"
ONE_CORE = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"


def manifest_of(user: User) -> dict[str, Any]:
    (path,) = (user.folder / "runs").glob("*/manifest.json")
    manifest: dict[str, Any] = json.loads(path.read_text())
    return manifest


@user_of("postgresql")
def test_a_large_client_shares_the_sessions_and_says_so(user: User) -> None:
    client = user.start_by_hand("--sessions", "16", off_s=1.0, first=LARGE)
    assert "; 4 client processes on 16 cores" in said_until(client, "NOW")
    user.cut_by_hand(client)
    out, err = client.communicate(timeout=120)
    assert client.returncode == 0, err
    result = json.loads(out)
    assert (result["verdict"], result["processes"], result["cores"]) == ("PASS", 4, 16)
    manifest = manifest_of(user)
    assert (manifest["workload"]["processes"], manifest["logs"]) == (4, 5)
    shown = user.run("report", result["folder"], code=0)
    assert "16 sessions, 4 client processes on 16 cores" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("first", "flags", "stored", "said"),
    [
        pytest.param(
            *(ONE_CORE, (), [1, 1, 1], "; 1 client process on 1 core"),
            id="its affinity",
        ),
        pytest.param(
            *(LARGE, ("--processes", "2"), [2, None, 3], "; 2 client processes\n"),
            id="given",
        ),
        pytest.param(
            *(LARGE, ("--lockstep",), [1, None, 1], "/witness\n"), id="in lockstep"
        ),
    ],
)
@user_of("postgresql")
def test_the_number_that_runs_is_stored(
    user: User, first: str, flags: tuple[str, ...], stored: list[int | None], said: str
) -> None:
    words = ("--sessions", "16", *flags)
    client = user.start_by_hand(*words, off_s=1.0, first=first)
    assert said in said_until(client, "NOW")
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=60)
    manifest = manifest_of(user)
    workload = manifest["workload"]
    assert [workload["processes"], workload["cores"], manifest["logs"]] == stored


@user_of("postgresql")
def test_a_lab_s_load_runs_in_one_process(user: User) -> None:
    result = user.json("run", *user.rig, code=0)
    assert (result["processes"], result["cores"]) == (1, None)
    assert manifest_of(user)["workload"]["processes"] == 1
