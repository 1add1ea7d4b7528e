"""A switch of programs: what they are asked, how long they may take, how they end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.model.cut import PowerState
from dbcheck.power.kinds.exec import ExecConfig, ExecSwitch
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until


@pytest.fixture
def plug(tmp_path: Path) -> Path:
    """A file that says whether the power is on."""
    path = tmp_path / "plug"
    path.write_text("power is on.\n")
    return path


def switch(
    plug: Path, *, off_s: float = 0.0, timeout_s: float = 5.0, **changed: str
) -> ExecSwitch:
    """A switch whose programs are shells, for the tests' sake."""
    scripts = {
        "state": f"cat {plug}",
        "cut": f"echo off > {plug}; echo done",
        "restore": f"echo on > {plug}",
    } | changed
    words = {name: ("sh", "-c", text) if text else () for name, text in scripts.items()}
    cut, restore, state = (words[name] for name in ("cut", "restore", "state"))
    plan = ExecConfig(cut, restore, state, off_s=off_s, timeout_s=timeout_s)
    return ExecSwitch(plan)


def test_the_commands_cut_and_restore(plug: Path) -> None:
    power = switch(plug)
    assert power.state() is PowerState.ON
    before_us = time.monotonic_ns() // 1000
    cut = power.cut()
    assert power.state() is PowerState.OFF
    assert cut.asked_us is not None
    assert cut.asked_us >= before_us
    assert cut.report == {"output": "done\n", "off_s": 0.0, "off_seen": True}
    power.restore()
    assert power.state() is PowerState.ON


def test_without_a_state_command_nothing_is_known(plug: Path) -> None:
    power = switch(plug, state="", restore="")
    assert power.state() is PowerState.UNKNOWN
    power.cut()
    power.restore()
    assert plug.read_text() == "off\n"


def by_patterns(printed: str, on: str, off: str) -> ExecSwitch:
    """A switch whose state program prints neither on nor off."""
    plan = ExecConfig(("true",), state=("printf", "%s", printed))
    return ExecSwitch(replace(plan, state_on=on, state_off=off))


@pytest.mark.parametrize(
    ("printed", "state"),
    [
        ("status: running\n", PowerState.ON),
        ("a line\nstatus: stopped\nanother", PowerState.OFF),
    ],
)
def test_a_pattern_is_found_in_what_the_state_command_prints(
    printed: str, state: PowerState
) -> None:
    on, off = "^status: running$", "^status: stopped$"
    assert by_patterns(printed, on, off).state() is state


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("paused", "printed 'paused', in which neither pattern is found"),
        ("", "printed '', in which neither pattern is found"),
        ("on", "neither pattern"),  # the words count only without patterns
        ("stopped, then running", "in which both patterns are found"),
    ],
)
def test_neither_pattern_or_both_is_no_state(printed: str, said: str) -> None:
    with refused(ErrorId.POWER_STATE_NOT_UNDERSTOOD, PowerError, naming=said) as caught:
        by_patterns(printed, "running", "stopped").state()
    assert "dbcheck_power_state_off" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"cut": "echo no such outlet; exit 3"}, "outlet", id="it fails"),
        pytest.param({"state": "echo maybe"}, "'maybe'", id="state says neither"),
        pytest.param({"state": "true"}, "''", id="state says nothing"),
        pytest.param({"state": "echo off"}, "off already", id="it is off already"),
        pytest.param({"cut": "true", "timeout_s": 2.0}, "still on", id="nothing cut"),
        pytest.param(
            {"cut": "nosuchcommand"}, "cannot run the cut command", id="no such command"
        ),
    ],
)
def test_what_went_wrong_is_named(
    plug: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(PowerError, match=said):
        switch(plug, **changed).cut()


def test_a_command_that_hangs_is_ended_with_all_it_started(plug: Path) -> None:
    pid = plug.with_name("pid")
    hanging = f"sleep 1000 & echo $! > {pid}; wait"
    with refused(ErrorId.POWER_COMMAND_TOO_SLOW, PowerError, naming="than 2"):
        switch(plug, cut=hanging, state="", timeout_s=2.0).cut()
    child = int(pid.read_text())
    wait_until(lambda: not _is_alive(child), "what the command started is ended")


def test_a_program_outlives_a_killed_client_by_its_timeout_only(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"echo $$ > {note}; sleep 1000 & wait"
    client = subprocess.Popen(
        (
            *(sys.executable, "-c"),
            "from dbcheck.power.kinds import command; command._GRACE_S = 0;"
            f"command.run_program(('sh', '-c', {script!r}), 'test', 2)",
        )
    )
    wait_until(lambda: note.exists() and bool(note.read_text().strip()), "it runs")
    leader = int(note.read_text())
    wait_until(lambda: bool(_children(leader)), "it has a child")
    family = (leader, *_children(leader))
    client.kill()
    client.wait()
    wait_until(lambda: not any(map(_is_alive, family)), "all of it is ended")


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def _is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_words_are_not_read_by_a_shell(plug: Path) -> None:
    commands = ExecConfig(("echo", "$HOME; rm -rf /nonexistent", "*"))
    assert ExecSwitch(commands).cut().report["output"] == (
        "$HOME; rm -rf /nonexistent *\n"
    )


def test_the_power_is_kept_off_for_its_time(plug: Path) -> None:
    power = switch(plug, off_s=0.3)
    assert power.cut().report["off_s"] == 0.3
    off_s = power.restore()
    assert off_s is not None
    assert off_s >= 0.3
    assert power.restore() is None  # it is on: there is nothing to wait for
    assert power.state() is PowerState.ON


def test_another_process_keeps_it_off_anew(plug: Path) -> None:
    """When the power went is not known there, only that it is off."""
    switch(plug, off_s=900).cut()
    off_s = switch(plug, off_s=0.3).restore()
    assert off_s is not None
    assert off_s >= 0.3


def test_a_time_without_power_that_nobody_saw_is_not_claimed(plug: Path) -> None:
    power = switch(plug, off_s=0.1)
    power.cut()
    plug.write_text("on")  # by somebody else, nobody knows when
    assert power.restore() is None
    plug.write_text("off")
    assert switch(plug, off_s=900, state="").restore() is None
    assert plug.read_text() == "on\n"


def test_a_state_that_cannot_be_read_keeps_no_host_without_power(plug: Path) -> None:
    """It fails once the time is over, and then no more."""
    broken = plug.with_name("broken")
    power = switch(plug, state=f"rm {broken} 2>&- && exit 3; cat {plug}")
    power.cut()
    broken.touch()
    assert power.restore() is None
    assert plug.read_text() == "on\n"


RESTORES = """
import sys
from dbcheck.base import interrupt
from dbcheck.power.kinds.exec import ExecConfig, ExecSwitch

installed, off_s, state, restore = sys.argv[1:]
if installed == "installed":
    interrupt.install_handlers()
words = {"state": ("sh", "-c", state), "restore": ("sh", "-c", restore)}
try:
    ExecSwitch(ExecConfig(("true",), off_s=float(off_s), **words)).restore()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("who", "number"),
    [
        ("installed", signal.SIGINT),
        ("installed", signal.SIGTERM),
        ("installed", signal.SIGHUP),
        ("plain", signal.SIGINT),
    ],
)
@pytest.mark.parametrize("off_s", [0, 900])
def test_no_interrupt_leaves_the_target_without_power(
    plug: Path, who: str, number: signal.Signals, off_s: int
) -> None:
    """One ends the time without power; one more, in the restore, ends nothing."""
    plug.write_text("off")
    asked, began = plug.with_name("asked"), plug.with_name("began")
    state = f"touch {asked}; cat {plug}"
    restore = f"touch {began}; sleep 0.5; echo on > {plug}"
    client = subprocess.Popen(
        (sys.executable, "-c", RESTORES, who, str(off_s), state, restore),
        stdout=subprocess.PIPE,
        text=True,
    )
    with client:
        wait_until(asked.exists, "the state is asked for")
        if off_s:
            client.send_signal(number)
        wait_until(began.exists, "the restore began")
        client.send_signal(number)
        said, _ = client.communicate(timeout=60)
    assert plug.read_text() == "on\n"
    assert said == "interrupted\n"
