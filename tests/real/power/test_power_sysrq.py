"""The sysrq switch over a real sshd; the trigger is a file that stands in for it.

Nothing here may name the machine's own trigger: it would take this machine down.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.power.kinds import sysrq
from dbcheck.power.kinds.sysrq import SysrqConfig, SysrqSwitch
from dbcheck.remote.address import SshOptions
from dbcheck.remote.channel import Pipe
from tests.kit.refusals import refused
from tests.kit.witnesses import running_sshd


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
    monkeypatch.setattr(sysrq, "read_boot_id", lambda: "another")


def host_of(sshd: Sshd) -> TargetHost:
    return open_host(
        f"ssh://{sshd.user}@{sshd.host}:{sshd.port}",
        options=SshOptions(
            identity_file=sshd.identity_file,
            known_hosts=sshd.known_hosts,
            config_file=Path(os.devnull),
        ),
    )


def switch(
    sshd: Sshd, trigger: Path, timeout_s: float = 10, host: TargetHost | None = None
) -> SysrqSwitch:
    plan = SysrqConfig(timeout_s)
    return SysrqSwitch(plan, host or host_of(sshd), trigger=str(trigger))


@pytest.mark.root  # who may not write the trigger is refused for that
def test_the_client_never_resets_its_own_machine(sshd: Sshd, trigger: Path) -> None:
    with refused(ErrorId.HOST_IS_THIS_MACHINE, PowerError):
        switch(sshd, trigger).cut()
    assert trigger.read_text() == ""


@pytest.mark.usefixtures("elsewhere")
def test_a_trigger_out_of_reach_is_reported(sshd: Sshd, tmp_path: Path) -> None:
    with refused(ErrorId.SYSRQ_NOT_ALLOWED, PowerError):
        switch(sshd, tmp_path / "no" / "trigger").cut()
    sshd.close()
    with refused(
        ErrorId.HOST_UNREACHABLE,
        PowerError,
        naming="cannot reset the host: cannot reach",
    ):
        switch(sshd, tmp_path / "trigger").cut()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.root
def test_a_prepared_reset_takes_one_message(sshd: Sshd, trigger: Path) -> None:
    """A host under load takes seconds for each login; the moment is long gone then."""
    host = host_of(sshd)
    logins: list[str] = []
    open_pipe = host._open_pipe

    def counted(program: bytes) -> Pipe:
        logins.append(trigger.read_text())
        return open_pipe(program)

    host._open_pipe = counted
    power = switch(sshd, trigger, timeout_s=1, host=host)
    power.prepare()
    assert logins == [""]
    logins.clear()
    with refused(ErrorId.HOST_DID_NOT_RESET, PowerError, naming="up 1"):
        power.cut()
    assert trigger.read_text() == "b"
    assert set(logins) == {"b"}  # each came after the reset, to see whether it is gone


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.root
def test_a_preparation_that_broke_is_made_anew(sshd: Sshd, trigger: Path) -> None:
    host = host_of(sshd)
    power = switch(sshd, trigger, timeout_s=1, host=host)
    power.prepare()
    host.close()  # as an interface that goes and comes back
    with refused(ErrorId.HOST_DID_NOT_RESET, PowerError, naming="up 1"):
        power.cut()
    assert trigger.read_text() == "b"


@pytest.mark.usefixtures("elsewhere")
def test_what_cannot_be_reset_is_refused_before_any_load(
    sshd: Sshd, tmp_path: Path
) -> None:
    with refused(ErrorId.SYSRQ_NOT_ALLOWED, PowerError):
        switch(sshd, tmp_path / "no" / "trigger").prepare()
