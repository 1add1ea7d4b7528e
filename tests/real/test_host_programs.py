"""Programs that the agent on a host starts, and the agent as a program itself."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from dbcheck.hosts.agent import journal as host_journal
from dbcheck.hosts.agent import shutdown as host_shutdown
from dbcheck.hosts.host import open_host
from dbcheck.remote.channel import Channel


def test_of_a_program_no_more_is_taken_than_wanted() -> None:
    endless = (sys.executable, "-c", "while True: print('x' * 99)")
    assert host_journal.beginning(endless, 1000, 20) == ((b"x" * 99 + b"\n") * 10, "")
    mute = (sys.executable, "-c", "import time; time.sleep(99)")
    assert host_journal.beginning(mute, 10, 0.3) == (b"", "ended after 0 s")
    wrong = (sys.executable, "-c", "raise SystemExit('no journal here')")
    assert host_journal.beginning(wrong, 10, 20) == (b"", "no journal here")


def test_a_journal_that_anybody_fills_does_not_fill_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "journalctl"
    program.write_text("#!/bin/sh\nwhile :; do echo System is powering down.; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = host_shutdown.from_journal("a1", 1)
    assert found == "System is powering down."
    text, more = host_journal.journalctl("x.service", "--since=@1", 50)
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
