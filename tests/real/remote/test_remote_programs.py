"""Agents as programs of their own, with no more than they bring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.agent import wire
from dbcheck.remote.channel import build_program
from tests.kit.channels import AGENTS


@pytest.mark.parametrize(("module", "parts"), AGENTS.items())
def test_a_program_imports_no_more_than_it_brings(
    module: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "program.py"  # it may be longer than one argument can be
    path.write_bytes(build_program(module, *parts))
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.stdout, done.stderr) == (wire.HELLO, b"")


def test_a_program_that_is_not_there_or_fails_prints_nothing() -> None:
    assert wire.read_program_lines("dbcheck-no-such-program") == []
    assert wire.read_program_lines("mount")
