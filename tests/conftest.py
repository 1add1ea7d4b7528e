"""What every test shares: the real servers, and where root is needed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

# A busy machine is no defect: no example is held against a clock.  make fuzz draws
# many more.
hypothesis.settings.register_profile("dbcheck", deadline=None, max_examples=25)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("dbcheck")

# A script's background job ignores Ctrl-C, one under nohup the end of its terminal, and
# so would all that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Failures there show their values, as in a test.
pytest.register_assert_rewrite("tests.kit")
pytest_plugins = ["tests.kit.servers"]


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have clients remember nothing in the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add how many trials tests/trials makes, and where judgements are written."""
    group = parser.getgroup("trials")
    group.addoption("--trials", type=int, default=4, help="trials of tests/trials")
    group.addoption("--first-trial", type=int, default=1, help="seed of the first")
    parser.addoption("--golden", help="folder for the judgements of tests/planted")


def mark_wide(items: list[pytest.Item]) -> list[str]:
    """Mark what wide_with() names as wide; return which of its names fit no item.

    A name is the id of a parameter, or of several in a row, as the test's own id has
    them: "mysql", "mariadb-item".
    """
    fits: dict[str, bool] = {}
    for item in items:
        function, _, ids = item.nodeid.partition("[")
        for mark in item.iter_markers("wide_with"):
            for name in mark.args:
                key = f"{function}[{name}]"
                found = f"-{name}-" in f"-{ids.removesuffix(']')}-"
                fits[key] = found or fits.get(key, False)
                if found:
                    item.add_marker("wide")
    return [key for key, found in fits.items() if not found]


@pytest.hookimpl(tryfirst=True)  # so that -m sees the marks
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark the wide tests; leave out what needs root for anybody else.

    As root nothing is left out.  Raise UsageError if wide_with() names what is no
    parameter, where all items of each test were collected.
    """
    unknown = mark_wide(items)
    whole = not (
        config.getoption("lf", False) or any("[" in arg for arg in config.args)
    )
    if whole and unknown:
        raise pytest.UsageError(f"wide_with names no parameter: {', '.join(unknown)}")
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: a drive is mounted, or a host reset")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)
