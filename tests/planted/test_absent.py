"""Servers that take no queries after a cut: whose fault that is, and whose not."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable

import pytest

from dbcheck.base.errors import LabError, Unrecoverable
from dbcheck.cycle import host as cycle_host
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Limits
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.verdict import Verdict
from tests.kit.nodes import host_after, with_node
from tests.kit.rigs import ENGINES
from tests.kit.server_logs import LOGS, SAYS
from tests.kit.waiting import wait_until
from tests.planted.booted import Booted, booted
from tests.planted.fault import engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

SOON = Limits(silence_s=3.0, cut_s=4.0, return_s=1.0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a host that is down be given up at once."""
    monkeypatch.setattr(cycle_host, "BOOT_S", 0.1)


def overwrite_log(site: Site) -> None:
    """Put noise where the log is from which the server would recover."""
    site.changed = True
    for path in site.server.data.glob(LOGS[site.name]):
        path.write_bytes(os.urandom(path.stat().st_size))


def try_to_start(site: Site) -> None:
    with contextlib.suppress(Unrecoverable):
        site.server.start(20)


def cycle(
    site: Site,
    restore: Callable[[], object],
    host: Booted,
    *,
    cut: bool = True,
    log: bool = True,
) -> Outcome:
    """Run a cycle as on real hardware.

    restore: what becomes of the server as the host boots; cut: whether it boots.
    """

    def kill() -> None:
        site.server.kill()
        host.cut = cut

    return site.cycle(kill, restore, limits=SOON, lab=False, host=host.port, log=log)


def require_open(outcome: Outcome, words: str) -> None:
    """Fail unless *outcome* accuses nobody, says why, and is not final."""
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert words in outcome.judgement.reasons[0]
    assert not outcome.run.was_read()


def overwrite_and_start(site: Site) -> None:
    overwrite_log(site)
    try_to_start(site)


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_a_server_that_the_cut_destroyed_fails_with_the_words_of_its_log(
    site: Site,
) -> None:
    with booted() as host:
        outcome = cycle(site, lambda: overwrite_and_start(site), host)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    claim, reason = outcome.judgement.reasons
    assert claim.startswith("the server did not come back")
    assert SAYS[site.name] in claim
    assert reason.startswith("unrecoverable: the server took no queries")
    assert SAYS[site.name] in reason
    assert outcome.run.was_read()
    assert SAYS[site.name] in (outcome.run.path / "server.log").read_text()
    again = judge_run(outcome.run, site.rig.reader)
    assert again.judgement == outcome.judgement
    assert host_after(outcome.after).left == ()


@engines("own_site", "mariadb")
def test_a_server_of_the_lab_that_hangs_after_the_cut_is_no_pass(site: Site) -> None:
    """Nor a FAIL: on a machine that is busy, recovery takes as long as it takes."""

    def restore() -> None:
        site.server.begin(0)
        site.server.freeze()

    outcome = site.cycle(restore=restore, limits=SOON)
    require_open(outcome, "may still be recovering")
    site.server.thaw()
    wait_until(lambda: site.rig.site.writer.engine.ready() is None, "server is back")
    later = reconcile_run(site.rig, outcome.run, outcome.manifest)
    assert later.verdict is Verdict.PASS, later.judgement


@pytest.mark.wide
@engines("own_site", "mariadb")
def test_without_its_log_nobody_knows_why_it_is_absent(site: Site) -> None:
    with booted() as host:
        outcome = cycle(site, lambda: overwrite_and_start(site), host, log=False)
    require_open(outcome, "--server-log")


@engines("own_site", "postgresql")
def test_a_server_that_nobody_started_is_judged_once_it_runs(site: Site) -> None:
    """Its service is not enabled: the host boots, and the server does not."""
    with booted() as host:
        outcome = cycle(site, lambda: None, host)
        require_open(outcome, "shows no start since the cut")
        assert judge_run(outcome.run, site.rig.reader).judgement == outcome.judgement
        site.server.start()
        rig = with_node(site.rig, host=host.port)
        later = reconcile_run(rig, outcome.run, outcome.run.manifest())
    assert later.verdict is not Verdict.FAIL, later.judgement
    assert later.found is not None
    assert not later.found.counts
    # The canaries were left for this: a process was killed, and no power cut.
    assert later.case.depth is not None
    assert "page cache survived" in later.case.depth.reasons[0]


@pytest.mark.wide
@engines("own_site", "mariadb")
def test_a_host_that_is_down_is_no_loss(site: Site) -> None:
    with booted() as host:
        host.up_after_cut = False
        outcome = cycle(site, lambda: None, host)
    require_open(outcome, "its host does not answer")


@engines("own_site", "postgresql")
def test_a_server_whose_host_was_not_booted_is_not_accused(site: Site) -> None:
    """Somebody killed it and overwrote its WAL; no power was cut."""
    with booted() as host:
        outcome = cycle(site, lambda: overwrite_and_start(site), host, cut=False)
    require_open(outcome, "same boot_id")


@engines("own_site", "mariadb")
def test_a_server_that_its_surroundings_keep_from_starting_is_not_accused(
    site: Site,
) -> None:

    def start() -> None:
        site.changed = True
        settings = site.server.settings
        site.server.settings = {**settings, "innodb_buffer_pool_size": "90000G"}
        try_to_start(site)
        site.server.settings = settings

    with booted() as host:
        outcome = cycle(site, start, host)
    require_open(outcome, "does not blame the data: [ERROR] InnoDB:")


@engines("own_site", "postgresql", "mysql")
def test_a_start_that_fails_at_its_port_hides_no_crash(site: Site) -> None:
    """It ends with the same words as a shutdown; the next one recovers."""

    def start_twice() -> None:
        port = site.server.port
        with socket.create_server(("127.0.0.1", 0)) as other:
            site.server.port = other.getsockname()[1]
            with contextlib.suppress(LabError):
                site.server.start(20)
        site.server.port = port
        site.server.start()

    with booted() as host:
        outcome = site.cycle(restore=start_twice, host=host.port, log=True)
    (item,) = [each for each in outcome.judgement.items if each.id is ItemId.SERVER_LOG]
    assert item.status is Status.PRESENT, item
