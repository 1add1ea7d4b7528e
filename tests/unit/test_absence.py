"""Whose fault is a server that is not back: its data's, or perhaps something else's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.core.gone import Gone
from dbcheck.core.records import LoadRecord
from dbcheck.core.target import LogTail
from dbcheck.core.verdict import Verdict
from dbcheck.judge.absence import Absence, judge_absence
from dbcheck.judge.case import Case
from dbcheck.judge.judge import judge
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE, after
from tests.kit.nodes import having
from tests.kit.samples import FACTS
from tests.kit.server_logs import MARIA_REDO, PG_SCANNED, PG_SLOT, PG_WAL


def _absence(log: LogTail) -> Absence:
    host = replace(after(), log=log)
    return judge_absence(case(BEFORE, host, load=loaded(), off_s=15.0))


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_is_known_to_its_end_accuses(text: str) -> None:
    found = _absence(LogTail(text, False, False))
    assert found.failure.startswith("it does not start: "), found


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_goes_on_does_not(text: str) -> None:
    """The start that it ends with need not have been the last."""
    found = _absence(LogTail(text, True, False))
    assert found.failure == ""
    assert "more was logged" in found.doubt


@pytest.mark.parametrize("text", [PG_SLOT, PG_SCANNED])
def test_errors_that_do_not_name_the_data_do_not_accuse(text: str) -> None:
    found = _absence(LogTail(text, False, False))
    assert found.failure == ""
    assert found.doubt


ASKED = loaded(cut=None, cut_failed="it did not answer", gone=Gone.UNSEEN)


def destroyed(boot_id: str, **changed: Any) -> Case:
    """Return the case of a host with that boot_id, whose data keep the server down."""
    return case(BEFORE, after(PG_WAL, boot_id=boot_id), **{"load": ASKED, **changed})


@pytest.mark.parametrize("load", [ASKED, None], ids=["no report", "no record"])
def test_a_switch_that_reported_no_cut_may_have_cut(load: LoadRecord | None) -> None:
    """Whether the host was booted anew decides, as where the whole record is lost."""
    one = destroyed("b2", load=load)
    found = judge_absence(one)
    assert found.failure
    failed = replace(one, after=having(one.after, failure=found.failure))
    assert judge(failed).verdict is Verdict.FAIL


def test_a_switch_that_was_asked_alone_proves_no_cut() -> None:
    for one in (destroyed("b1"), destroyed("b1", off_s=15.0)):
        assert judge_absence(one).doubt
    assert judge_absence(case(load=ASKED, off_s=15.0)).doubt


def test_a_switch_that_was_never_asked_did_not_cut() -> None:
    unasked = loaded(cut=None)
    one = destroyed("b2", load=unasked)
    assert judge_absence(one).doubt
    failed = replace(one, after=having(one.after, failure="exit status 1"))
    assert judge(failed).verdict is Verdict.INCONCLUSIVE


DAMAGE = "invalid page in block 3"


@pytest.mark.parametrize(
    ("started_us", "verdict"),
    [
        pytest.param(FACTS.started_us, Verdict.INCONCLUSIVE, id="the same server"),
        pytest.param(FACTS.started_us + 9_000_000, Verdict.FAIL, id="a new one"),
    ],
)
def test_a_table_that_cannot_be_read_is_no_loss_without_a_cut(
    started_us: int, verdict: Verdict
) -> None:
    back = replace(FACTS, started_us=started_us)
    unread = {"facts": back, "failure": DAMAGE}
    judged = judge(case(load=loaded(gone=Gone.NEVER), after=unread))
    assert judged.verdict is verdict
    assert DAMAGE in " ".join(judged.reasons)
