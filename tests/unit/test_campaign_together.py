"""Campaigns of several hosts, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck import children
from dbcheck.cli import campaign_run
from dbcheck.errors import UsageError


def test_where_processes_cannot_end_with_their_parent_none_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(children, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(campaign_run, "_started", lambda *_, **__: pytest.fail("begun"))
    with pytest.raises(UsageError, match="setpriv is not installed"):
        campaign_run.run_many([], tmp_path, yes=True)
