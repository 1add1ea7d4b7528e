"""Each command has a manual page."""

from __future__ import annotations

from pathlib import Path

from tests.kit.commandtree import contexts
from tools.docs.manpages import name_of, page, write


def test_each_command_has_a_page_and_no_other_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "man1"
    folder.mkdir()
    (folder / "dbcheck-nosuch.1").write_text("of a command that was removed")
    write(folder)
    written = {file.stem: file.read_text("utf-8") for file in folder.iterdir()}
    assert written == {name_of(context): page(context) for context in contexts()}
    assert {"dbcheck", "dbcheck-lab", "dbcheck-lab-run"} <= set(written)


def test_a_command_below_another_is_summed_up_by_its_own_help() -> None:
    """One at the top may have the same name, as verify."""
    (shown,) = (
        page(context)
        for context in contexts()
        if name_of(context) == "dbcheck-witness-verify"
    )
    assert r"dbcheck-witness-verify \- Check that all logs of a run are intact" in shown
