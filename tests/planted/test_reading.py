"""Servers that end, or are ended, while their rows are read."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.recovery import reading_log
from dbcheck.hosts.host import open_host
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import TableSpec
from tests.kit.rigs import quick
from tests.kit.server_logs import PAGE_BYTES
from tests.kit.waiting import wait_until
from tests.planted.fault import engines
from tests.planted.site import Site, spoil

pytestmark = pytest.mark.planted

TRIES = 5
LP_NORMAL = 1 << 15  # src/include/storage/itemid.h: 15 bits, 2 bits, 15 bits
BEHIND = 32760 | LP_NORMAL | 32767 << 17  # the longest item, far behind the page
PAYLOAD_AT = 34  # of a row, behind id, epoch, session, seq and part
HEADER_AT = 22  # of a tuple: t_hoff (src/include/access/htup_details.h)


def huge_payload(table: Path) -> None:
    """Give the payload of the first row a length of nearly 1 GiB."""
    with table.open("r+b") as file:
        page = file.read(PAGE_BYTES)
        at = struct.unpack_from("<I", page, 24)[0] & 0x7FFF
        file.seek(at + page[at + HEADER_AT] + PAYLOAD_AT)
        file.write(bytes(2) + struct.pack("<I", 0x3FFF0000))


def items_behind(index: Path) -> None:
    """Have every item of every page lie far behind it."""
    pages = bytearray(index.read_bytes())
    for page in range(PAGE_BYTES, len(pages), PAGE_BYTES):
        (lower,) = struct.unpack_from("<H", pages, page + 12)
        for at in range(24, lower, 4):
            struct.pack_into("<I", pages, page + at, BEHIND)
    index.write_bytes(pages)


def crashing(
    site: Site,
    name: str,
    change: Callable[[Path], None],
    *,
    load_s: float = 1.0,
    log: bool = True,
) -> Outcome:
    def restore() -> None:
        site.changed = True
        site.server.start()
        wait_until(
            lambda: site.rig.site.writer.engine.ready() is None, "server is back"
        )
        spoil(site, name, change)

    with contextlib.closing(open_host("local:")) as host:
        workload = replace(quick(), cut_after_s=(load_s, load_s))
        return site.cycle(restore=restore, workload=workload, host=host, log=log)


@engines("own_site", "postgresql")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("ledger", huge_payload, id="a page of the table"),
        pytest.param("ledger_pkey", items_behind, id="pages of the index"),
    ],
)
def test_a_page_that_crashes_its_reader_fails_with_the_words_of_the_log(
    site: Site, name: str, change: Callable[[Path], None]
) -> None:
    # What follows the pages in memory is chance. If it can be read, the server does not
    # crash and the FAIL is an index-mismatch; the more pages, the likelier it crashes.
    for number in range(TRIES):
        outcome = crashing(site, name, change, load_s=2.0**number)
        assert outcome.verdict is Verdict.FAIL, outcome.judgement
        if name == "ledger" or outcome.after.failure:
            break
        site.put_back()
    reason = outcome.judgement.reasons[-1]
    assert "was terminated by signal 11: Segmentation fault" in reason
    assert "2 times" in reason
    assert outcome.run.was_read()


class Disturbed:
    """An engine whose server somebody disturbs once, while its rows are read."""

    def __init__(self, site: Site, disturb: Callable[[Site], None]) -> None:
        self._engine, self._site, self._disturb = (
            site.rig.site.writer.engine,
            site,
            disturb,
        )
        self.done = False

    def survivors(
        self, tables: Sequence[TableSpec], **options: Any
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Yield the rows; the first batch is followed by the disturbance."""
        for found in self._engine.survivors(tables, **options):
            yield found
            if not self.done:
                self.done = True
                self._disturb(self._site)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def readers(site: Site) -> list[int]:
    """Return the processes that serve dbcheck's sessions."""
    found = site.execute(
        "select pid from pg_stat_activity where application_name = 'dbcheck'"
    )
    return [pid for (pid,) in found]


def signalled(number: signal.Signals) -> Callable[[Site], None]:
    def disturb(site: Site) -> None:
        for pid in readers(site):
            os.kill(pid, number)
        if number is not signal.SIGTERM:  # PostgreSQL starts over
            wait_until(lambda: "reinitializing" in logged(site), "it started over")

    return disturb


def logged(site: Site) -> str:
    return site.server.log_file.read_text("utf-8", "replace")


def restarted(site: Site) -> None:
    site.server.stop()
    site.server.start()


def killed_and_started(site: Site) -> None:
    site.server.kill()
    site.server.start()


def disturbed(site: Site, disturb: Callable[[Site], None]) -> Outcome:
    engine = Disturbed(site, disturb)
    with contextlib.closing(open_host("local:")) as host:
        outcome = site.cycle(engine=cast(Engine, engine), host=host, log=True)
    assert engine.done
    return outcome


@pytest.mark.wide_with("SIGTERM", "restarted")
@engines("own_site", "postgresql")
@pytest.mark.parametrize(
    ("disturb", "verdict"),
    [
        pytest.param(signalled(signal.SIGKILL), Verdict.PASS, id="SIGKILL"),
        pytest.param(signalled(signal.SIGTERM), Verdict.PASS, id="SIGTERM"),
        # As somebody does who wants a core dump.
        pytest.param(signalled(signal.SIGSEGV), Verdict.PASS, id="SIGSEGV"),
        # Its log says so, and dbcheck cannot know that it was not the cut.
        pytest.param(restarted, Verdict.INCONCLUSIVE, id="restarted"),
    ],
)
def test_who_disturbs_the_reading_accuses_nobody(
    site: Site,
    disturb: Callable[[Site], None],
    verdict: Verdict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading_log, "LOG_WAIT_S", 0.5)
    outcome = disturbed(site, disturb)
    assert outcome.verdict is verdict, outcome.judgement
    assert outcome.found is not None
    assert outcome.found.kept == outcome.found.confirmed > 0


@engines("own_site", "mariadb")
def test_a_restart_amid_the_reading_of_mariadb(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_log, "LOG_WAIT_S", 0.5)
    outcome = disturbed(site, killed_and_started)
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@engines("own_site", "postgresql")
def test_a_reader_that_crashes_without_a_log_leaves_it_open(site: Site) -> None:
    """It is judged once the log can be read, as often as anybody tries."""
    outcome = crashing(site, "ledger", huge_payload, log=False)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    (reason,) = outcome.judgement.reasons
    assert "2 times" in reason
    assert "--server-log" in reason
    assert not outcome.run.was_read()
    again = reconcile_run(site.rig, outcome.run, outcome.manifest)
    assert again.verdict is Verdict.INCONCLUSIVE, again.judgement
    # The crashes of the reader emptied the canary's table after it was read.
    assert outcome.after.canary is again.after.canary is False


@engines("own_site", "mariadb")
def test_rows_are_not_read_under_a_setting_that_leaves_recovery_out(
    site: Site,
) -> None:
    """Somebody starts it with innodb_force_recovery, and then as usual."""
    settings = site.server.settings

    def forced() -> None:
        site.server.settings = {**settings, "innodb_force_recovery": "6"}
        site.server.start()

    try:
        outcome = site.cycle(restore=forced)
    finally:
        site.server.settings = settings
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    (reason,) = outcome.judgement.reasons
    assert reason.startswith("innodb_force_recovery = 6: ")
    assert not outcome.run.was_read()
    site.server.stop()
    site.server.start()
    later = reconcile_run(site.rig, outcome.run, outcome.manifest)
    assert later.verdict is Verdict.PASS, later.judgement
