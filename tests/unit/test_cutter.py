"""When the cut comes, on a rig that does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.campaign.loading import BEHIND_MAX_S, RESUMED_S, Cutter
from dbcheck.campaign.preflight import Started
from dbcheck.campaign.rig import Rig
from dbcheck.errors import EngineError
from dbcheck.load.loop import now_us
from dbcheck.ports import Cut

DUE_S = 1.0


class Quiet:
    """Stands for the engine, the switch, the listener and the log."""

    kind = "quiet"

    def facts(self) -> None:
        raise EngineError("nobody is asked")

    def cut(self) -> Cut:
        return Cut(None, None)

    def note(self, event: Mapping[str, object]) -> None:
        pass

    def phase(self, name: str, detail: str) -> None:
        pass


@pytest.fixture
def cutter() -> Cutter:
    quiet: Any = Quiet()
    rig = SimpleNamespace(engine=quiet, power=quiet, listener=quiet)
    workload = SimpleNamespace(cut_after_s=(DUE_S, DUE_S))
    manifest = SimpleNamespace(seed=1, workload=workload, moment=None)
    started = SimpleNamespace(manifest=manifest, log=quiet)
    return Cutter(cast(Rig, rig), cast(Started, started))


def long_ago_us() -> int:
    return now_us() - int(2 * RESUMED_S * 1e6)


def test_it_comes_when_it_is_due(cutter: Cutter) -> None:
    cutter.cut_if_due(DUE_S / 2, 0.0, now_us())
    assert not cutter.asked
    cutter.cut_if_due(
        DUE_S, 0.0, long_ago_us()
    )  # a load that idles is judged, not kept
    assert cutter.asked


@pytest.mark.parametrize("acked", [True, False])
def test_after_a_lag_it_comes_once_an_ack_shows_that_sessions_go_on(
    cutter: Cutter, acked: bool
) -> None:
    cutter.cut_if_due(DUE_S, BEHIND_MAX_S, now_us())
    assert not cutter.asked
    cutter.cut_if_due(DUE_S, 0.0, long_ago_us() if acked else None)
    assert not cutter.asked
    cutter.cut_if_due(DUE_S, 0.0, now_us())
    assert cutter.asked
