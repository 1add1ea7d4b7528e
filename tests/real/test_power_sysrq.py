"""The sysrq switch over a real sshd; the trigger is a file that stands in for it.

Nothing here may name the machine's own trigger: it would take this machine down.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.core.cut import PowerState
from dbcheck.errors import PowerError
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.power import sysrq
from dbcheck.power.sysrq import SysrqSwitch
from dbcheck.power.target import Target
from dbcheck.remote.channel import Pipe
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


@pytest.mark.root  # who may not write the trigger is refused for that
def test_the_client_never_resets_its_own_machine(sshd: Sshd, trigger: Path) -> None:
    with pytest.raises(PowerError, match="the machine that dbcheck runs on"):
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
    assert cut.exact_us is None
    assert power.state() is PowerState.UNKNOWN
    power.restore()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.root
def test_a_host_that_lives_on_is_no_cut(sshd: Sshd, trigger: Path) -> None:
    with pytest.raises(PowerError, match="still up 1 s after its reset"):
        switch(sshd, trigger, timeout_s=1).cut()
    assert trigger.read_text() == "b"


@pytest.mark.usefixtures("elsewhere")
def test_a_trigger_out_of_reach_is_told(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(PowerError, match=r"cannot be written|does not let this user"):
        switch(sshd, tmp_path / "no" / "trigger").cut()
    sshd.close()
    with pytest.raises(PowerError, match="no reset: cannot reach"):
        switch(sshd, tmp_path / "trigger").cut()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.root
def test_a_prepared_reset_takes_one_message(sshd: Sshd, trigger: Path) -> None:
    """A host under load takes seconds for each login; the moment is long gone then."""
    power = switch(sshd, trigger, timeout_s=1)
    power.prepare()
    logins: list[str] = []
    way = power._target._way

    def counted(program: bytes) -> Pipe:
        logins.append(trigger.read_text())
        return way.run(program)

    power._target._way = replace(way, run=counted)
    with pytest.raises(PowerError, match="still up 1 s after its reset"):
        power.cut()
    assert trigger.read_text() == "b"
    assert set(logins) == {"b"}  # each came after the reset, to see whether it is gone


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.root
def test_a_preparation_that_broke_is_made_anew(sshd: Sshd, trigger: Path) -> None:
    power = switch(sshd, trigger, timeout_s=1)
    power.prepare()
    power._target._way.close()  # as an interface that goes and comes back
    with pytest.raises(PowerError, match="still up 1 s after its reset"):
        power.cut()
    assert trigger.read_text() == "b"


@pytest.mark.usefixtures("elsewhere")
def test_what_cannot_be_reset_is_refused_before_any_load(
    sshd: Sshd, tmp_path: Path
) -> None:
    with pytest.raises(PowerError, match=r"cannot be written|does not let this user"):
        switch(sshd, tmp_path / "no" / "trigger").prepare()
