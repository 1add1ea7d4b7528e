"""What leads to a host instead of what ssh_config(5) says, compared with ssh(1)."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.remote.address import Address, Proxy, SshOptions
from dbcheck.remote.ssh import connect
from tests.kit.refusals import refused
from tests.kit.witnesses import running_sshd

pytestmark = pytest.mark.skipif(not shutil.which("ssh"), reason="needs the ssh client")
FAR = "Host far\n  HostName 127.0.0.1\n  Port 1\n  User joe\n"


def block(name: str, sshd: Sshd, *more: str) -> str:
    """Return what ssh_config says of a server under a *name*."""
    lines = (
        *(f"Host {name}", f"HostName {sshd.host}", f"Port {sshd.port}"),
        *(f"User {sshd.user}", f"UserKnownHostsFile {sshd.known_hosts}", *more),
    )
    return "\n  ".join(lines) + "\n"


@pytest.mark.parametrize("proxy", [Proxy(jump="hop"), Proxy(jump="%r@hop,hop")])
def test_each_host_on_the_way_gets_the_keys_that_its_configuration_names(
    tmp_path: Path, proxy: Proxy
) -> None:
    config = tmp_path / "config"
    with (
        running_sshd(tmp_path / "hop", "openssh") as hop,
        running_sshd(tmp_path / "far", "openssh") as far,
    ):
        config.write_text(
            block("hop", hop, f"IdentityFile {hop.identity_file}")
            + block("far", far, "ProxyCommand false")
        )
        options = SshOptions(
            config_file=config, identity_file=far.identity_file, proxy=proxy
        )
        with contextlib.closing(connect(Address("far"), options)) as found:
            assert found.transport.is_authenticated()
        by_ssh = subprocess.run(
            [
                *("ssh", "-F", str(config), "-i", str(far.identity_file)),
                *("-o", f"ProxyJump={proxy.jump}", "far", "true"),
            ]
        )
        assert by_ssh.returncode == 0


@pytest.mark.parametrize("proxy", [Proxy("none"), Proxy(jump="None")])
@pytest.mark.parametrize("setting", ["ProxyJump none.invalid", "ProxyCommand false"])
def test_without_a_proxy_a_command_may_still_count(
    tmp_path: Path, proxy: Proxy, setting: str
) -> None:
    config = tmp_path / "config"
    with running_sshd(tmp_path / "far", "openssh") as far:
        keys = f"IdentityFile {far.identity_file}"
        config.write_text(block("far", far, keys, setting))
        name = "ProxyCommand" if proxy.command else "ProxyJump"
        by_ssh = subprocess.run(
            ["ssh", "-F", config, "-o", f"{name}=none", "far", "true"]
        )
        reached = True
        try:
            connect(Address("far"), SshOptions(config_file=config, proxy=proxy)).close()
        except HostError:
            reached = False
        assert reached == (by_ssh.returncode == 0)


@pytest.mark.parametrize(
    ("address", "given"),
    [(Address("far"), ()), (Address("far", "ann", 7), ("-l", "ann", "-p", "7"))],
)
def test_the_tokens_of_a_command_are_those_of_ssh(
    tmp_path: Path, address: Address, given: tuple[str, ...]
) -> None:
    config, asked = tmp_path / "config", tmp_path / "asked"
    config.write_text(FAR + "  ProxyJump none.invalid\n")
    command = f"sh -c 'echo %h %n %p %r %% %%h | tee {asked}'"
    with refused(ErrorId.HOST_UNREACHABLE, HostError):
        connect(address, SshOptions(config_file=config, proxy=Proxy(command)))
    ours = asked.read_text()
    asked.unlink()
    subprocess.run(
        ["ssh", "-F", config, *given, "-o", f"ProxyCommand={command}", "far"],
        capture_output=True,
    )
    assert ours == asked.read_text() != ""


def test_a_command_that_ends_at_once_is_told(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host db\n ProxyCommand exit 0\n")
    with refused(ErrorId.HOST_UNREACHABLE, HostError, naming="db:22: ") as caught:
        connect(Address("db"), SshOptions(config_file=tmp_path / "config"))
    assert "ProxyCommand" in caught.value.hint


@pytest.mark.parametrize("text", ["%x", "50%", "%"])
def test_a_token_that_ssh_does_not_have_is_refused(tmp_path: Path, text: str) -> None:
    options = SshOptions(
        config_file=tmp_path / "none", proxy=Proxy(f"echo hunter2 {text}")
    )
    with refused(ErrorId.SSH_ARGUMENT_NOT_SUPPORTED) as caught:
        connect(Address("far"), options)
    assert "hunter2" not in str(caught.value) + repr(options)
    by_ssh = subprocess.run(
        ["ssh", "-F", "none", "-o", f"ProxyCommand=echo {text}", "far"],
        capture_output=True,
    )
    assert by_ssh.returncode == 255


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sh -c 'echo TargetNotConnected: i-0 is not connected >&2; exit 255'", "i-0"),
        ("no-such-program --port %p", "no-such-program"),
        ("printf '\\033[2Jgone\\n' >&2", r"\\x1b\[2Jgone"),
        ("true", "127.0.0.1:1: (?=[A-Za-z])"),
    ],
)
def test_what_a_proxy_command_says_of_its_failure_is_shown(
    tmp_path: Path, command: str, said: str
) -> None:
    config = tmp_path / "config"
    config.write_text(f"{FAR}  ProxyCommand {command}\n")
    with refused(ErrorId.HOST_UNREACHABLE, HostError) as caught:
        connect(Address("far"), SshOptions(config_file=config))
    assert re.search(said, str(caught.value)), caught.value
    assert "ProxyCommand" in caught.value.hint
