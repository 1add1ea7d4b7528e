"""What leads to a path, past links."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.access import find_change_by_others
from dbcheck.base.owners import exchangeable
from dbcheck.base.system import steps


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with links, below no link."""
    root = tmp_path.resolve()
    (root / "real/deep").mkdir(parents=True)
    (root / "real/near").touch()
    (root / "near").touch()
    (root / "link").symlink_to("real/deep")
    (root / "real/deep/up").symlink_to("../near")
    return root


def passed(root: Path, path: str) -> list[str]:
    """Return the steps below *root* on the way to a path in it."""
    found = [step for step in steps(root / path) if step.is_relative_to(root)]
    return [str(step.relative_to(root)) for step in found if step != root]


def test_a_folder_is_the_one_that_a_step_lies_in(tree: Path) -> None:
    assert passed(tree, "link/up") == [
        *("link", "real", "real/deep", "real/deep/up"),
        "real/near",
    ]


def test_a_step_back_leaves_the_folder_that_a_link_led_to(tree: Path) -> None:
    assert passed(tree, "link/../near") == ["link", "real", "real/deep", "real/near"]


def test_a_relative_path_begins_at_the_working_folder(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree / "real")
    assert list(steps(Path("near")))[-1] == tree / "real/near"


def test_links_in_a_circle_end(tree: Path) -> None:
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    assert len(passed(tree, "a")) > 1


def test_an_absolute_path_needs_no_current_folder(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks for folders that others may change would else find none."""
    gone = tree / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert passed(tree, "near") == ["near"]
    with pytest.raises(FileNotFoundError, match="No such file"):
        list(steps(Path("near")))
    (tree / "real").chmod(0o777)
    assert exchangeable(str(tree / "real/near"))
    assert find_change_by_others(tree / "real/near")
