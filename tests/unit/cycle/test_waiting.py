"""A server that crashes takes queries until somebody notices."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError, NotBack
from dbcheck.cycle.recovery import waiting
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.model.server import ServerFacts
from dbcheck.ports.connection import LoginRefused
from tests.kit.nodes import site_of
from tests.kit.refusals import refused
from tests.kit.samples import FACTS


def rig(answers: list[ServerFacts | None], return_s: float) -> Rig:
    """Return a rig whose server breaks the connection for each None."""

    def facts() -> ServerFacts:
        answer = answers.pop(0) if answers else None
        if answer is None:
            raise ConnectionLost("the connection broke", 9, id=ErrorId.CONNECTION_LOST)
        return answer

    made: Any = SimpleNamespace(
        limits=Limits(return_s=return_s),
        site=site_of(SimpleNamespace(ready=lambda: None, facts=facts)),
        listener=SimpleNamespace(phase=lambda *_: None),
    )
    return cast(Rig, made)


def test_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "POLL_S", 0.0)
    assert waiting.await_facts(rig([None, None, FACTS], 60.0)) == (FACTS, "")


def answering_rig(
    monkeypatch: pytest.MonkeyPatch, *answers: str | None
) -> tuple[Rig, list[str]]:
    """Return a rig whose server answers so, each a second later, and what is shown."""
    clock, left, shown = count(), list(answers), list[str]()
    monkeypatch.setattr(waiting, "POLL_S", 0.0)
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    made: Any = SimpleNamespace(
        limits=Limits(return_s=1000.0),
        site=SimpleNamespace(ready=lambda: left.pop(0), failure=lambda: None),
        listener=SimpleNamespace(
            phase=lambda _, text: shown.append(text), progress=lambda _: None
        ),
    )
    return cast(Rig, made), shown


def test_errors_that_alternate_are_shown_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", -1.0)
    answers = [*("timed out", "no route to host") * 3, "starting up", None]
    made, shown = answering_rig(monkeypatch, *answers)
    assert waiting.wait_for_server(made) == ""
    assert shown[1:] == ["timed out", "no route to host", "starting up"]


NO = EngineError("wrong password", id=ErrorId.PASSWORD_REFUSED, hint="Give another.")
REFUSED = LoginRefused(NO)


def test_a_login_that_stays_refused_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not while the server starts; and one refusal may pass, as of a name service."""
    starting = ["starting up"] * 50
    made, _ = answering_rig(monkeypatch, *starting, REFUSED, *starting, *[REFUSED] * 50)
    with refused(ErrorId.PASSWORD_REFUSED, EngineError, naming="wrong password"):
        waiting.wait_for_server(made, 20.0)
    made, _ = answering_rig(monkeypatch, *starting, REFUSED, REFUSED, None)
    assert waiting.wait_for_server(made, 20.0) == ""


def test_after_a_cut_it_is_waited_for_and_the_reason_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It worked before the cut, so something else is wrong, and may pass."""
    made, shown = answering_rig(monkeypatch, *[REFUSED] * 100, None)
    assert waiting.wait_for_server(made) == ""
    assert shown[1:] == ["wrong password. Give another."]


def test_one_that_always_ends_is_not_back() -> None:
    with refused(ErrorId.SERVER_NOT_BACK, NotBack, naming="the connection broke"):
        waiting.await_facts(rig([], 0.0))
