"""A server that crashes takes queries until somebody notices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, NotBack
from dbcheck.cycle.recovery import waiting
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.model.server import ServerFacts
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


def test_errors_that_alternate_are_shown_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "POLL_S", 0.0)
    monkeypatch.setattr(waiting, "PATIENCE_S", -1.0)
    answers = [*("timed out", "no route to host") * 3, "starting up", None]
    shown: list[str] = []
    made: Any = SimpleNamespace(
        limits=Limits(return_s=60.0),
        site=SimpleNamespace(ready=lambda: answers.pop(0), failure=lambda: None),
        listener=SimpleNamespace(
            phase=lambda _, text: shown.append(text), progress=lambda _: None
        ),
    )
    assert waiting.wait_for_server(cast(Rig, made)) == ""
    assert shown[1:] == ["timed out", "no route to host", "starting up"]


def test_one_that_always_ends_is_not_back() -> None:
    with refused(ErrorId.SERVER_NOT_BACK, NotBack, naming="the connection broke"):
        waiting.await_facts(rig([], 0.0))
