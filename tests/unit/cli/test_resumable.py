"""What a run advises that ended before it was judged."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cli import output
from dbcheck.cli.root import root
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import Gone
from dbcheck.runner import resume
from tests.kit.nodes import having
from tests.kit.refusals import refused
from tests.kit.samples import LOAD


@pytest.mark.parametrize("gone", Gone)
def test_what_can_still_be_judged(gone: Gone) -> None:
    uncut = having(LOAD, cut=None, gone=gone)
    advised = resume.UNCUT if gone is Gone.NEVER else resume.PAUSED
    assert resume._find_advice(uncut) == advised
    assert resume._find_advice(replace(uncut, cut_failed="no")) == resume.MAYBE_CUT
    assert resume._find_advice(replace(LOAD, gone=gone)) == resume.PAUSED
    assert resume._find_advice(None) == resume.PAUSED


def test_a_run_that_is_not_final_is_told_to_go_on_with_the_same_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, shown = tmp_path / "a run", []
    outcome = SimpleNamespace(run=SimpleNamespace(path=run))
    monkeypatch.setattr(resume, "reconcile_entry", lambda *_, **__: outcome)
    monkeypatch.setattr(
        output, "end_with", lambda *_, reconcile, **__: shown.append(reconcile)
    )
    key, target = tmp_path / "key", "postgresql://u@db1/d"
    run.mkdir()
    key.touch()
    flags = ["--target", target, "--identity", str(key), "--known-hosts", str(key)]
    done = CliRunner().invoke(root, ["reconcile", str(run), *flags])
    assert done.exit_code == 0, done.output
    (command,) = shown
    words = shlex.split(command)
    assert words[:3] == ["dbcheck", "reconcile", str(run)]
    assert sorted(words[3:]) == sorted(flags)


@pytest.mark.parametrize("name", ["", "db1"])
@pytest.mark.parametrize("id", [ErrorId.PASSWORD_REFUSED, ErrorId.HOST_KEY_UNKNOWN])
def test_a_login_that_fails_is_advised_to_name_the_host(name: str, id: ErrorId) -> None:
    """The inventory may have the password, which flags do not name."""
    with (
        refused(id, EngineError, naming="no") as caught,
        resume._advise_naming_host(Entry(name, "postgresql://u@db1/d")),
    ):
        raise EngineError("no", id=id, hint="Give it.")
    assert ("--name, and --inventory" in caught.value.hint) == (not name)
