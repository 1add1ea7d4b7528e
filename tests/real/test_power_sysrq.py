"""The sysrq switch over a real sshd; the trigger is a file that stands in for it.

Nothing here may name the machine's own trigger: it would take this machine down.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.errors import PowerError
from dbcheck.lab.sshd import Sshd
from dbcheck.ports import PowerState
from dbcheck.power import sysrq
from dbcheck.power.sysrq import SysrqSwitch
from dbcheck.power.target import Target
from dbcheck.remote.way import way_to
from tests.real.witnesses import running_sshd
from tests.waiting import wait_until


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd", "openssh") as server:
        yield server


@pytest.fixture
def trigger(tmp_path: Path) -> Path:
    path = tmp_path / "trigger"
    path.touch()
    return path


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client believe that it runs on another machine than the sshd."""
    monkeypatch.setattr(sysrq, "boot_id", lambda: "another")


def switch(sshd: Sshd, trigger: Path, timeout_s: float = 10) -> SysrqSwitch:
    way = way_to(
        f"ssh://{sshd.user}@{sshd.host}:{sshd.port}",
        identity_file=sshd.identity_file,
        known_hosts=sshd.known_hosts,
        config_file=Path(os.devnull),
    )
    return SysrqSwitch(Target(way), timeout_s, trigger=str(trigger))


def test_the_client_never_resets_its_own_machine(sshd: Sshd, trigger: Path) -> None:
    with pytest.raises(PowerError, match="the very machine that dbcheck runs on"):
        switch(sshd, trigger).cut()
    assert trigger.read_text() == ""


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.root
def test_a_reset_is_asked_for_and_seen(sshd: Sshd, trigger: Path) -> None:
    def go() -> None:
        wait_until(lambda: trigger.read_text() == "b", "the trigger was pulled")
        sshd.close()  # what the host does then, as seen from here

    power = switch(sshd, trigger)
    assert power.state() is PowerState.ON
    host = threading.Thread(target=go)
    host.start()
    try:
        cut = power.cut()
    finally:
        host.join()
    assert cut.report["depth_max"] == "OS"
    assert cut.exact_us is None
    assert power.state() is PowerState.UNKNOWN
    power.restore()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.root
def test_a_host_that_lives_on_is_no_cut(sshd: Sshd, trigger: Path) -> None:
    with pytest.raises(PowerError, match="lives on 1 s after its reset"):
        switch(sshd, trigger, timeout_s=1).cut()
    assert trigger.read_text() == "b"


@pytest.mark.usefixtures("elsewhere")
def test_a_trigger_out_of_reach_is_told(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(PowerError, match=r"cannot be written|lets this user run no"):
        switch(sshd, tmp_path / "no" / "trigger").cut()
    sshd.close()
    with pytest.raises(PowerError, match="no reset: cannot reach"):
        switch(sshd, tmp_path / "trigger").cut()
