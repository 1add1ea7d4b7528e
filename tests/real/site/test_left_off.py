"""A client that is killed while its switch keeps the power off: how it comes back."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from dbcheck.cli import FAILED, INCONCLUSIVE
from dbcheck.lab.switch import LabSwitch
from dbcheck.model.cut import PowerState
from tests.kit.users import User, user_of
from tests.kit.users import user as user
from tests.kit.waiting import wait_until

# A lab plays the server on another host, which no guard would let be cut from here.
ELSEWHERE = (
    "from dbcheck.cycle.preflight import before_load; from dbcheck.cli import run;"
    "before_load.require_independent = lambda *_: 'the test says so';"
    "run.check_interlocks = lambda *_, **__: '';"
    "from dbcheck.cli import main; main()"
)


def lab_program(user: User, call: str) -> str:
    """Return a command of a user's that does something with the lab's power."""
    use = f"from dbcheck.lab.switch import LabSwitch; LabSwitch({user.lab.name!r})"
    return shlex.join((sys.executable, "-c", f"{use}.{call}"))


def killed_without_power(user: User, *more: str) -> Path:
    """Run dbcheck, kill it while the power is off; return its run folder."""
    client = subprocess.Popen(
        (
            *(sys.executable, "-c", ELSEWHERE, "run", "--target", user.lab.target_url),
            *(*user.witness, "--workload", "quick.toml", "--power", "exec"),
            *("--cut-command", lab_program(user, "cut()"), "--off-seconds", "900"),
            *more,
        ),
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with client:
        stored = user.folder.glob
        wait_until(lambda: any(stored("runs/*/load.json")), "the load is stored")
        client.kill()
    assert LabSwitch(user.lab.name).state() is PowerState.OFF
    (run,) = (user.folder / "runs").iterdir()
    return run


@user_of("postgresql")
def test_reconcile_says_how_to_give_the_power_back(user: User) -> None:
    user.workload(1.0)
    restore = lab_program(user, "restore()")
    run = killed_without_power(user, "--restore-command", restore)
    words = ("reconcile", str(run), *user.witness[2:])
    done = user.start(*words, "--wait", "0.5")
    _, said = done.communicate(timeout=60)
    assert done.returncode in (FAILED, INCONCLUSIVE), said
    assert "this run cut the power (exec)" in said
    found = re.search(r"If the host is still off, run: (.*)", said)
    assert found is not None
    assert found[1] == restore
    subprocess.run(shlex.split(found[1]), check=True, env=os.environ)
    result = user.json(*words, code=INCONCLUSIVE)
    assert result["losses"] == {}
    statuses = {each["item"]: each["status"] for each in result["evidence"]}
    assert statuses["time without power"] != "present"
