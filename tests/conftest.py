"""What every test shares: the real servers, and where root is needed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# A busy machine is no defect: no example is held against a clock.
hypothesis.settings.register_profile("dbcheck", deadline=None)
hypothesis.settings.load_profile("dbcheck")

# A script's background job ignores Ctrl-C, and so would all that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Failures there show their values, as in a test.
pytest.register_assert_rewrite("tests.kit")
pytest_plugins = ["tests.kit.servers"]


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have clients remember nothing in the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


HERE = Path(__file__).parent
# Names as wide.txt has them, also of the tests that -m or -k then leaves out.
COLLECTED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add how many trials tests/trials makes; each is a seed."""
    group = parser.getgroup("trials")
    group.addoption("--trials", type=int, default=4, help="trials of tests/trials")
    group.addoption("--first-trial", type=int, default=1, help="seed of the first")


def wide_names() -> tuple[str, ...]:
    """Return the beginnings of the names in wide.txt, as of the folder of tests."""
    lines = (HERE / "wide.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@pytest.hookimpl(tryfirst=True)  # so that -m sees the marks
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark what wide.txt names; leave out what needs root for anybody else.

    As root nothing is left out.
    """
    wide = wide_names()
    names = config.stash[COLLECTED] = []
    for item in items:
        name = f"{item.path.relative_to(HERE)}::{item.nodeid.partition('::')[2]}"
        names.append(name)
        if name.startswith(wide):
            item.add_marker("wide")
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: a drive is mounted, or a host reset")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)
