"""A right that the cuts of a go-live check need is missed before the first of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.runner.golive_steps import find_unsafe_settings
from tests.kit.accounts import Least, statements
from tests.kit.accounts import new_least as new_least
from tests.kit.golivedesk import ENTRY, make_desk
from tests.kit.refusals import refused


def test_a_right_that_the_control_needs_is_missed_by_the_audit(
    new_least: Callable[[str], Least],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    least = new_least("mariadb")
    for statement in statements("mariadb", workload="mixed"):
        least.run(statement)
    desk = make_desk(tmp_path, monkeypatch)
    monkeypatch.setenv("DBCHECK_PASSWORD", least.password)
    entry = replace(ENTRY, target=least.url.render_as_string())
    check = replace(desk.check, entry=entry)
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError, naming="SUPER"):
        find_unsafe_settings(check)
    without = replace(check, plan=replace(check.plan, control=False))
    assert "safe" in find_unsafe_settings(without).summary
