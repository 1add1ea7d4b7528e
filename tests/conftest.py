"""What every test shares: the real servers, and where root is needed."""

from __future__ import annotations

import os

import hypothesis
import pytest

# A busy machine is no defect: no example is held against a clock.
hypothesis.settings.register_profile("dbcheck", deadline=None)
hypothesis.settings.load_profile("dbcheck")

pytest_plugins = ["tests.real.servers"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add how many trials tests/fire makes; each is a seed."""
    group = parser.getgroup("fire")
    group.addoption("--trials", type=int, default=4, help="trials of tests/fire")
    group.addoption("--first-trial", type=int, default=1, help="seed of the first")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what needs root for anybody else; as root nothing is left out."""
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: a drive is mounted, or a host reset")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)
