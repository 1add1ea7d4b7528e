"""What is checked of all targets before a campaign cuts any of them."""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.cli import campaign_run
from dbcheck.error_ids import ErrorId
from dbcheck.errors import DbcheckError, FleetError, HostError, UsageError
from dbcheck.inventory.entry import Entry

REFUSED = UsageError(
    "its name is another", id=ErrorId.OPTIONS_CONFLICT, hint="Rename it."
)
AWAY = HostError("cannot reach it", id=ErrorId.HOST_UNREACHABLE)


def checked(monkeypatch: pytest.MonkeyPatch, **found: DbcheckError | None) -> None:
    """Check targets of which each passes, or fails so."""

    def fit(entry: Entry, **_: Any) -> None:
        if error := found[entry.name]:
            raise error

    monkeypatch.setattr(campaign_run, "require_fit", fit)
    entries = [Entry(name, "postgresql://h/d", "") for name in found]
    campaign_run.require_all_fit(entries, yes=True, i_know=False)


def test_all_that_fail_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked(monkeypatch, db1=None, db2=None)
    with pytest.raises(
        UsageError,
        match=r"^nothing was cut: 2 of 3 targets do not pass the checks before a cut:\n"
        r"db1: its name is another\ndb3: its name is another$",
    ) as caught:
        checked(monkeypatch, db1=REFUSED, db2=None, db3=REFUSED)
    assert caught.value.hint == "Rename it."
    many = {f"db{number}": REFUSED for number in range(9)}
    with pytest.raises(UsageError, match=r"db4: its name is another\nand 4 more$"):
        checked(monkeypatch, **many)


def test_one_that_cannot_be_asked_is_no_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FleetError, match="db2: cannot reach it"):
        checked(monkeypatch, db1=REFUSED, db2=AWAY)
    with pytest.raises(HostError, match="^cannot reach it$"):
        checked(monkeypatch, db1=AWAY)
