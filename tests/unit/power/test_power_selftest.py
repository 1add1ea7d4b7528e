"""The order of a self test; the switches themselves are in tests/real."""

from __future__ import annotations

import signal
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, PowerError
from dbcheck.cli import power
from dbcheck.hosts.host import TargetHost
from dbcheck.inventory.entry import Entry
from dbcheck.judge.volumes import VolumeDepth
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.model.depth import Depth, Reached
from dbcheck.model.host import Identity, Volume
from dbcheck.power import selftest, switched_host
from dbcheck.probe import idle_cut
from dbcheck.runner import assemble, switch_test
from tests.kit.refusals import refused


class Plug:
    """A switch and the host behind it; `broken` says how it fails."""

    kind, attended, place = SwitchKind.EXEC, False, "ssh://db1"
    cut_class = CutClass.UNKNOWN

    def __init__(self, broken: str = "") -> None:
        self.broken, self.calls = broken, list[str]()
        self.power, self.boots = PowerState.ON, 1

    def state(self) -> PowerState:
        return self.power

    def cut(self) -> Cut:
        self.calls.append("cut")
        if self.broken == "cut":
            raise PowerError("it may be off", id=ErrorId.POWER_COMMAND_FAILED)
        self.power = PowerState.OFF
        return Cut(1, None)

    def restore(self) -> None:
        self.calls.append("restore")
        self.power = PowerState.ON
        if self.broken != "wrong outlet":
            self.boots += 1

    def failure(self) -> str | None:
        return None

    def identity(self) -> Identity:
        if self.broken == "no boot" and self.boots > 1:
            raise HostError("no answer", id=ErrorId.HOST_UNREACHABLE)
        return Identity("db1", "m", str(self.boots), "", frozenset())


def test_a_host_that_boots_anew_is_seen() -> None:
    plug = Plug()
    seen = selftest.run_self_test(plug, cast(TargetHost, plug), 5)
    assert seen.rebooted is True
    assert seen.back_s is not None
    assert seen.states == ("on", "off", "on")
    assert plug.calls == ["cut", "restore"]


def test_without_ssh_nothing_is_claimed_of_the_host() -> None:
    seen = selftest.run_self_test(Plug(), None, 5)
    assert (seen.rebooted, seen.back_s) == (None, None)


def test_a_host_that_stayed_up_is_seen() -> None:
    plug: Any = Plug("wrong outlet")
    assert selftest.run_self_test(plug, plug, 5).rebooted is False


def test_an_outlet_that_was_off_already_stays_off() -> None:
    """It is that of another host, and somebody may work there."""

    class OffAlready(Plug):
        def prepare(self) -> None:
            raise PowerError("it is off", id=ErrorId.POWER_STATE_OF_OTHER_HOST)

        def cut(self) -> Cut:
            self.prepare()
            return super().cut()

    plug = OffAlready()
    noted: list[str] = []
    with refused(ErrorId.POWER_STATE_OF_OTHER_HOST, PowerError):
        selftest.run_self_test(plug, None, 5, lambda: noted.append("cut"))
    assert plug.calls == noted == []


def test_a_cut_is_noted_before_it_is_made() -> None:
    plug = Plug("cut")
    with refused(ErrorId.POWER_COMMAND_FAILED, PowerError):
        selftest.run_self_test(plug, None, 5, lambda: plug.calls.append("noted"))
    assert plug.calls == ["noted", "cut", "restore"]


def test_the_power_is_restored_whatever_fails() -> None:
    plug = Plug("cut")
    with refused(ErrorId.POWER_COMMAND_FAILED, PowerError, naming="may be off"):
        selftest.run_self_test(plug, None, 5)
    assert plug.calls == ["cut", "restore"]


@pytest.mark.parametrize(
    ("ended_by", "why"),
    [
        (PowerError("no answer", id=ErrorId.POWER_COMMAND_FAILED), "no answer"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_power_that_does_not_come_back_is_reported_with_what_came_first(
    ended_by: BaseException, why: str
) -> None:
    class Stuck(Plug):
        def cut(self) -> Cut:
            raise ended_by

        def restore(self) -> None:
            raise PowerError(
                "it is stuck", id=ErrorId.POWER_COMMAND_FAILED, hint="Go there."
            )

    both = f"{why}; the power may still be off: it is stuck"
    with refused(ErrorId.POWER_COMMAND_FAILED, PowerError) as caught:
        selftest.run_self_test(Stuck(), None, 5)
    assert (str(caught.value), caught.value.hint) == (both, "Go there.")


def test_a_host_that_does_not_come_back_is_reported() -> None:
    plug: Any = Plug("no boot")
    with refused(ErrorId.HOST_NOT_BACK, PowerError, naming="answer 0"):
        selftest.run_self_test(plug, plug, 0)


def test_an_interrupt_in_the_restore_comes_once_the_power_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(Plug):
        def restore(self) -> None:
            signal.raise_signal(signal.SIGINT)
            super().restore()

    monkeypatch.setattr(interrupt, "_interrupts", [])  # it is remembered for good
    plug = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        selftest.run_self_test(plug, None, 5)
    assert plug.power is PowerState.ON


@pytest.mark.parametrize(("broken", "kept"), [("", 1), ("wrong outlet", 0)])
def test_a_depth_is_remembered_unless_the_host_stayed_up(
    broken: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug: Any = Plug(broken)
    volume = Volume({"data": "/d"}, "/", "xfs", "rw", "/dev/a", "u", (), (), {})
    depth = VolumeDepth(volume, None, "no canaries")
    remembered: list[Reached] = []
    found = Reached("now", "m", ())
    monkeypatch.setattr(assemble, "make_power_host", lambda _: plug)
    monkeypatch.setattr(assemble, "make_host", lambda _: plug)
    monkeypatch.setattr(assemble, "make_engine", MagicMock())
    monkeypatch.setattr(
        idle_cut,
        "cut_idle_host_and_measure_depth",
        lambda *arguments: (arguments[-2](), [depth], found),
    )
    monkeypatch.setattr(
        switched_host, "remember_measured_depth", lambda _, it: remembered.append(it)
    )
    _, depths, shown = switch_test._test_entry(
        Entry("db1", "postgresql://db1/x"), plug, 5, lambda: None
    )
    assert len(remembered) == kept
    assert (depths, shown) == ([f"{depth}: no canaries"], None)


@pytest.mark.parametrize("cut_class", [CutClass.AC, CutClass.DC_RAIL])
def test_a_depth_that_was_measured_is_not_called_unmeasured(
    cut_class: CutClass,
) -> None:
    result = {
        **{"host": "db1", "switch": "exec", "states": ["on", "off", "on"]},
        **{"cut_s": 1.0, "off_s": 2.0, "back_s": None, "drives": []},
        "depths": ["DRIVE on data (sda): 110 writes are gone"],
    }
    measured = power._format_test(result, cut_class, Depth.DRIVE)
    unknown = power._format_test(result, cut_class, None)
    left_open = cut_class.leaves_open(None)
    assert left_open
    assert not any(left_open in line for line in measured)
    assert any(left_open in line for line in unknown)
