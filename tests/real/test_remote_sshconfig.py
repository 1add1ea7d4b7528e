from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.sshconfig import settings
from dbcheck.remote.sshconnect import connect
from tests.kit.refusals import refused


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".ssh" / "config.d").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(home: Path, **files: str) -> None:
    for name, text in files.items():
        (home / ".ssh" / name.replace("_", "/", 1)).write_text(text)


def test_a_missing_file_says_nothing(home: Path) -> None:
    assert settings("lab", Path("~/.ssh/config")) == {}


def test_a_host_is_looked_up(home: Path) -> None:
    write(home, config="Host lab*\n  HostName %h.example\n  Port 2222\n")
    found = settings("lab1", Path("~/.ssh/config"))
    assert (found["hostname"], found["port"]) == ("lab1.example", "2222")


def test_includes_are_read_and_end_with_their_file(home: Path) -> None:
    write(
        home,
        config="Include config.d/* ~/.ssh/none\nUser me\n"
        "Host other\n  Include=config.d/one\n  Port 4\n",
        **{
            "config.d_one": "Host lab\n  Port 1\n",
            "config.d_two": "Host two\n  Port 2\n",
        },
    )
    path = Path("~/.ssh/config")
    assert [settings(h, path).get("port") for h in ("lab", "two", "other")] == [
        "1",
        "2",
        "4",
    ]
    assert {settings(h, path)["user"] for h in ("lab", "two", "any")} == {"me"}


@pytest.mark.parametrize(
    "text",
    [
        "Include config\n",
        "Host lab\n  Port many\n",
        "Host lab\n  NoValue\n",
    ],
)
def test_what_cannot_be_used_is_told(home: Path, text: str) -> None:
    write(home, config=text)
    with pytest.raises(UsageError, match="cannot use") as caught:
        settings("lab", Path("~/.ssh/config"))
    assert caught.value.hint


def test_a_command_that_decides_gets_no_password(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    write(
        home,
        config='Match exec "printenv PGPASSWORD"\n  User leaked\n'
        'Match exec "test %h = lab"\n  User me\n',
    )
    assert settings("lab", Path("~/.ssh/config"))["user"] == "me"
    assert "user" not in settings("other", Path("~/.ssh/config"))
    monkeypatch.setenv("SHELL", "/no/such/shell")
    with pytest.raises(UsageError, match="/no/such/shell"):
        settings("lab", Path("~/.ssh/config"))


@pytest.mark.parametrize(
    "config",
    [
        pytest.param("ProxyCommand true %h", id="ProxyCommand"),
        pytest.param('Match exec "true %h"\n  User me', id="Match exec"),
        pytest.param(
            'ProxyJump $(touch${IFS}ran)\nMatch exec "true %h"\n  Port 1',
            id="ProxyJump",
        ),
    ],
)
def test_a_host_does_not_reach_a_shell(
    home: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    """Witnesses and hosts are named in files, and ssh_config hands them to a shell."""
    monkeypatch.chdir(home)
    write(home, config=f"{config}\n")
    host = "127.0.0.1" if "ProxyJump" in config else "$(touch${IFS}ran)"
    with refused(ErrorId.HOST_ADDRESS_INVALID):
        connect(Address.parse(f"u@{host}"), SshOptions(connect_timeout_s=5))
    assert not (home / "ran").exists()
