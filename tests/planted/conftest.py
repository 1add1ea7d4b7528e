"""Each fault meets the engines on which it can be planted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cycle import judging
from dbcheck.cycle.outcome import Outcome
from tests import golden
from tests.kit.rigs import ENGINES
from tests.planted.fault import Fault
from tests.planted.one_cut import cut as cut
from tests.planted.one_cut import one_cut as one_cut
from tests.planted.site import own_site as own_site
from tests.planted.site import site as site
from tests.planted.site import sites as sites


@pytest.fixture(autouse=True)
def _leave_judgements(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """With --golden FOLDER, leave there how the test's runs were judged."""
    folder = request.config.getoption("golden")
    if not folder:
        yield
        return
    seen: list[golden.Summary] = []

    class Remembered(Outcome):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            seen.append(golden.summary(self.result))

    monkeypatch.setattr(judging, "Outcome", Remembered)
    yield
    name = request.node.nodeid.rpartition("/")[2]
    digest = hashlib.sha256(name.encode()).hexdigest()
    (Path(folder) / f"{digest}.json").write_text(json.dumps([name, seen]))


@pytest.hookimpl(tryfirst=True)  # so that wide_with() cannot name what is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what cannot be planted.

    Engine and fault are two parameters, so that the faults can share a server.
    """
    kept = []
    for item in items:
        spec = getattr(item, "callspec", None)
        params = spec.params if spec else {}
        fault = params.get("fault")
        if not isinstance(fault, Fault):
            kept.append(item)
            continue
        engine = next(value for value in params.values() if value in ENGINES)
        if engine in fault.engines:
            kept.append(item)
    items[:] = kept
