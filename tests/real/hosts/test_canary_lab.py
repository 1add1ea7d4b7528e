"""Canaries beside real servers in a lab: they measure each kind of cut rightly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome, find_met_activity
from dbcheck.hosts.canary import Canaries
from dbcheck.hosts.host import TargetHost
from dbcheck.judge.volumes import find_host_cache
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.depth import RECENT_S, Depth, DepthFinding, Ground, find_depth
from dbcheck.model.moments import AT_ONCE, Activity, Met, PlannedCut
from dbcheck.model.verdict import Verdict
from tests.kit.labs import host_of
from tests.kit.rigs import FAMILIES, SEED, Bench, bench, quick
from tests.kit.waiting import wait_until

ENGINES = pytest.mark.parametrize("engine", FAMILIES)
CUTS_MAX = 6


def data_directory(here: Bench) -> str:
    identity = here.rig.site.writer.engine.facts().identity
    return identity.get("data_directory") or identity["datadir"]


def ground_of(here: Bench, host: TargetHost) -> Ground:
    """Return what the canaries write on."""
    facts = host.facts(data_directory(here)).data
    above = find_host_cache(facts.layers)
    return Ground(facts.filesystem, facts.mount_options, above=above)


def of_a_process(here: Bench, host: TargetHost) -> Depth | None:
    """Return how deep the end of a process can be seen to go here."""
    unknown = ground_of(here, host).written_at_once()
    return None if unknown else Depth.PROCESS


def measured(here: Bench, host: TargetHost, canaries: Canaries) -> DepthFinding:
    """End the canaries of a server that is back, and judge."""
    ground = ground_of(here, host)
    canaries.stop()
    left = host.read_canaries(canaries.folder, canaries.nonce)
    return find_depth(canaries.completed(), left, ground)


def cut_idle(here: Bench, host: TargetHost) -> DepthFinding:
    """Cut the power of a server at rest, which flushes nothing."""
    canaries = host.start_canaries(data_directory(here))
    wait_until(lambda: canaries.completed().buffered.last > 100, "they write")
    # What was made durable is, even on a drive that destages but does not flush.
    destaged_s = time.monotonic() + RECENT_S + 0.2
    wait_until(lambda: time.monotonic() > destaged_s, "the first writes are destaged")
    here.rig.site.writer.power.cut()
    here.rig.site.writer.power.restore()
    wait_until(lambda: here.rig.site.writer.engine.ready() is None, "server is back")
    finding = measured(here, host, canaries)
    if here.lab.spec.cut == "drive":
        assert canaries.failure == "Input/output error"
    host.remove_canaries(canaries.folder)
    return finding


@pytest.mark.root
@pytest.mark.parametrize(
    ("spec", "depth"),
    [
        (LabSpec("mariadb"), Depth.DRIVE),
        pytest.param(
            LabSpec("postgresql", filesystem="ext4"),
            Depth.DRIVE,
            marks=pytest.mark.wide,
        ),
        pytest.param(
            LabSpec("mariadb", drive=DriveSpec("lying")),
            Depth.DRIVE,
            marks=pytest.mark.wide,
        ),
        (LabSpec("mariadb", drive=DriveSpec("write-through")), Depth.OS),
        pytest.param(
            LabSpec("postgresql", drive=DriveSpec("write-through")),
            Depth.OS,
            marks=pytest.mark.wide,
        ),
        pytest.param(
            LabSpec("mariadb", drive=DriveSpec(kept_writes="all")),
            Depth.OS,
            marks=pytest.mark.wide,
        ),
    ],
    ids=lambda value: "",
)
def test_a_cut_of_a_server_at_rest_is_measured(
    spec: LabSpec, depth: Depth, tmp_path: Path
) -> None:
    """A busy machine hears of some writes too late; then a cut may tell too little."""
    with bench(spec, tmp_path) as here, host_of(here.lab) as host:
        for _ in range(CUTS_MAX):
            finding = cut_idle(here, host)
            buffered, direct = finding.buffered, finding.direct
            assert buffered.lost == buffered.checked
            if finding.depth is depth:
                assert buffered.checked > 0
                return
            known = Depth.OS if buffered.checked else None
            assert (finding.depth, direct.checked) == (known, 0), finding
    pytest.fail(f"{CUTS_MAX} cuts, and the last: {finding}")


@pytest.mark.wide_with("mariadb")
@ENGINES
def test_the_end_of_a_process_is_no_cut_of_power(engine: str, tmp_path: Path) -> None:
    spec = LabSpec(engine, cut="process")
    with bench(spec, tmp_path) as here, host_of(here.lab) as host:
        finding = cut_idle(here, host)
        assert finding.depth is of_a_process(here, host), finding


@pytest.mark.wide_with("mariadb")
@pytest.mark.root
@ENGINES
def test_canaries_beside_a_load_recognise_the_drive(
    engine: str, tmp_path: Path
) -> None:
    """Every commit flushes the canaries too, so a single cut may miss the drive."""
    depths: list[Depth | None] = []
    with bench(LabSpec(engine), tmp_path) as here:
        while Depth.DRIVE not in depths:
            assert len(depths) < CUTS_MAX, depths
            outcome = run_cycle(here.rig, quick(), SEED + len(depths))
            assert outcome.verdict is Verdict.PASS
            assert outcome.case.depth is not None
            buffered = outcome.case.depth.buffered
            assert buffered.lost == buffered.checked
            depths.append(outcome.case.depth.depth)
    assert set(depths) <= {Depth.OS, Depth.DRIVE}


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.parametrize(
    ("engine", "filesystem", "options", "says"),
    [
        ("mariadb", "xfs", "sync", "xfs with sync writes buffered data out"),
        pytest.param(
            *("postgresql", "ext4", "sync", "ext4 with sync writes buffered data out"),
            marks=pytest.mark.soak,
        ),
        pytest.param(
            *("mariadb", "ext4", "data=journal", "ext4 with data=journal writes"),
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_cut_below_a_filesystem_that_writes_at_once_is_a_cut(
    engine: str, filesystem: str, options: str, says: str, tmp_path: Path
) -> None:
    """Such a mount keeps what others lose: that shows no system that kept running."""
    spec = LabSpec(engine, filesystem=filesystem, mount_options=options)
    with bench(spec, tmp_path) as here:
        outcome = run_cycle(here.rig, quick(), SEED)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.case.depth is not None
    assert outcome.case.depth.depth in (None, Depth.OS)
    deep = outcome.case.shown_depth is Depth.OS
    assert says in outcome.case.depth.reasons[0] or deep
    told = [item.reason for item in outcome.judgement.items]
    assert "kept running" not in " ".join((*told, *outcome.case.depth.reasons))


def held(here: Bench, number: int) -> Outcome:
    """Cut while the sessions are held, for the time that their number gives."""
    into_s = 0.05 + 0.015 * number
    moment = PlannedCut(number, Activity.HOLD, 0.6, into_s, lag_s=AT_ONCE)
    outcome = run_cycle(here.rig, quick(sessions=8), SEED + number, moment=moment)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert find_met_activity(outcome) == Met(Activity.HOLD)
    return outcome


def depth_of(outcome: Outcome) -> Depth | None:
    return outcome.case.shown_depth


@pytest.mark.root
def test_a_busy_drive_hides_no_depth_while_the_sessions_are_held(
    tmp_path: Path,
) -> None:
    """A machine that is busy itself may hear of the writes too late."""
    with bench(LabSpec("mariadb"), tmp_path) as here:
        depths: list[Depth | None] = []
        while Depth.DRIVE not in depths:
            assert len(depths) < CUTS_MAX, depths
            depths.append(depth_of(held(here, len(depths))))


@pytest.mark.root
@pytest.mark.soak
@ENGINES
@pytest.mark.parametrize("flush_ms", [1.0, 20.0])
def test_nine_of_ten_honest_cuts_show_the_drive_while_the_sessions_are_held(
    engine: str, flush_ms: float, tmp_path: Path
) -> None:
    spec = LabSpec(engine, drive=DriveSpec(flush_ms=flush_ms))
    with bench(spec, tmp_path) as here:
        depths = [depth_of(held(here, number)) for number in range(10)]
    assert depths.count(Depth.DRIVE) >= 9, depths


@pytest.mark.root
@pytest.mark.soak
@ENGINES
@pytest.mark.parametrize(
    "drive",
    [DriveSpec("write-through"), DriveSpec(kept_writes="all")],
    ids=["write-through", "survivors"],
)
def test_a_drive_whose_cache_survived_never_looks_lost(
    engine: str, drive: DriveSpec, tmp_path: Path
) -> None:
    with bench(LabSpec(engine, drive=drive), tmp_path) as here:
        depths = [depth_of(held(here, number)) for number in range(10)]
    assert set(depths) == {Depth.OS}, depths


@pytest.mark.root
def test_a_lab_tells_what_its_server_lies_on(tmp_path: Path) -> None:
    with bench(LabSpec("mariadb"), tmp_path) as here, host_of(here.lab) as host:
        facts = host.facts(data_directory(here)).data
    assert facts.filesystem == "xfs"
    assert [layer.kind for layer in facts.layers] == ["loop"]
    assert facts.layers[0].write_cache == "write back"
    assert facts.filesystem_uuid


def test_a_folder_inside_the_data_directory_is_no_schema(tmp_path: Path) -> None:
    spec = LabSpec("mariadb", cut="process")
    with bench(spec, tmp_path) as here, host_of(here.lab) as host:
        inside = f"{data_directory(here).rstrip('/')}/#sql-dbcheck-canary"
        before = here.execute("show databases")
        canaries = host.start_canaries(data_directory(here), folder=inside)
        assert here.execute("show databases") == before
        here.rig.site.writer.power.cut()
        here.rig.site.writer.power.restore()
        assert here.execute("show databases") == before
        expected = of_a_process(here, host)
        assert measured(here, host, canaries).depth is expected
        host.remove_canaries(inside)
