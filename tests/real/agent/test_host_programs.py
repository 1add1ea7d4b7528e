"""Programs that the agent on a host starts, and the agent as a program itself."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from dbcheck.agent.host import devices, tools
from dbcheck.agent.host import journal as host_journal
from dbcheck.agent.host import journal as host_shutdown
from dbcheck.audit import raid
from dbcheck.hosts.host import open_host
from dbcheck.remote.channel import Channel


def test_of_a_program_no_more_is_taken_than_wanted() -> None:
    endless = (sys.executable, "-c", "while True: print('x' * 99)")
    assert host_journal.read_output_beginning(endless, 1000, 20) == (
        (b"x" * 99 + b"\n") * 10,
        "",
    )
    mute = (sys.executable, "-c", "import time; time.sleep(99)")
    assert host_journal.read_output_beginning(mute, 10, 0.3) == (b"", "ended after 0 s")
    wrong = (sys.executable, "-c", "raise SystemExit('no journal here')")
    assert host_journal.read_output_beginning(wrong, 10, 20) == (b"", "no journal here")


def test_a_journal_that_anybody_fills_does_not_fill_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "journalctl"
    program.write_text("#!/bin/sh\nwhile :; do echo System is powering down.; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = host_shutdown.find_shutdown_in_journal("a1", 1)
    assert found == "System is powering down."
    text, more = host_journal.run_journalctl("x.service", "--since=@1", 50)
    assert (len(text), more) == (50, True)


def test_an_interrupted_answer_is_not_taken_for_the_next_one_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(channel: Channel, *_: object) -> None:
        assert channel.wait(60)  # the answer has come
        raise KeyboardInterrupt

    log = tmp_path / "server.log"
    log.write_text("old\n")
    with contextlib.closing(open_host("local:")) as host:
        marks = host.mark_log(str(log))
        with monkeypatch.context() as patch:
            patch.setattr(Channel, "receive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                host.mark_log(str(tmp_path))
        assert host.mark_log(str(log)) == marks
        assert host.read_log(str(log), marks).text == ""


# As smartctl 7.3 prints it; nothing goes to standard error.
DENIED = "Smartctl open device: /dev/sda failed: Permission denied"
SMARTCTL = {
    "json_format_version": [1, 0],
    "smartctl": {
        "version": [7, 3],
        "argv": ["smartctl", "-j", "-A", "/dev/sda"],
        "messages": [
            {"string": "Warning: its database is old", "severity": "warning"},
            {"string": DENIED, "severity": "error"},
        ],
        "exit_status": 2,
    },
}
STORCLI = {
    "Controllers": [
        {"Command Status": {"Status": "Failure", "Description": "Root is needed"}}
    ]
}
SAYINGS = {
    "smartctl": (json.dumps(SMARTCTL), 2, DENIED),
    "nvme": (json.dumps({"error": "Invalid argument"}), 1, "Invalid argument"),
    "storcli2": (json.dumps(STORCLI), 1, "Root is needed"),
    "ssacli": ("\nError: You need administrator rights\n", 1, "Error: You need admin"),
    "zfs": ("no error here", 1, "exit status 1"),
    "dmsetup": ("[1]", 1, "exit status 1"),
    "hdparm": ('{"error": {}}', 5, "exit status 5"),
}


@pytest.mark.parametrize("name", SAYINGS)
def test_a_program_that_prints_its_error_to_standard_output_is_heard(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, code, why = SAYINGS[name]
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/text\nexit {code}\n")
    program.chmod(0o755)
    (tmp_path / "text").write_text(text)
    monkeypatch.setattr(tools, "PATHS", f"{tmp_path}:/usr/bin:/bin")
    printed, found = tools.read_output(name)
    assert printed == text
    assert found.startswith(f"{name}: {why}")


@pytest.mark.wide
def test_what_smartctl_itself_says_is_shown(tmp_path: Path) -> None:
    if not tools.find_program("smartctl"):
        pytest.skip("smartmontools is not installed")
    (tmp_path / "x").touch()
    _, why = tools.read_output("smartctl", "-j", "-A", str(tmp_path / "x"))
    assert why == f"smartctl: {tmp_path}/x: Unable to detect device type"


@pytest.mark.parametrize("code", [0, 2, 4])
def test_a_drive_without_counters_has_smartctls_reason(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of its questions failed, and it did its work (smartctl(8))."""
    program = tmp_path / "smartctl"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/text\nexit {code}\n")
    program.chmod(0o755)
    (tmp_path / "text").write_text(json.dumps(SMARTCTL))
    monkeypatch.setattr(tools, "PATHS", f"{tmp_path}:/usr/bin:/bin")
    unreadable: dict[str, str] = {}
    assert devices.read_power_loss_counters("sda", unreadable) == {}
    assert unreadable["sda.counters"] == f"smartctl: {DENIED}"


def test_the_tools_of_raid_controllers_are_found_where_their_packages_put_them() -> (
    None
):
    for folder in ("/opt/MegaRAID/storcli2", "/opt/smartstorageadmin/ssacli/bin"):
        assert folder in tools.PATHS.split(":")
    assert set(tools.RAID_COMMANDS) == {
        *raid.STORCLI,
        *(f"{tool} vall" for tool in raid.STORCLI),
        *raid.SSACLI,
    }
