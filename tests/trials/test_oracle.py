"""The oracle sees what is planted, and the fixes that it led to stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.trials import agents, client
from tests.trials.faults import FAULTS
from tests.trials.oracle import Facts, Said, complaints
from tests.trials.raw_log import RawLog
from tests.trials.recorded import Received, Record
from tests.trials.trial import Trial, TrialSpec
from tests.trials.witness_host import witness_host

pytestmark = [
    pytest.mark.trials,
    pytest.mark.root,
    pytest.mark.usefixtures("own_mounts"),
]
SPEC = LabSpec("postgresql", cut="process")
PLAIN = replace(
    TrialSpec.of(1),
    engine="postgresql",
    lying=False,
    processes=1,
    window=64,
    cut_s=60.0,
    strike_s=0.2,
    outage_s=1.0,
    coin=False,
)


def named(name: str) -> TrialSpec:
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    return replace(PLAIN, fault=fault)


@pytest.fixture(scope="module")
def lab(own_mounts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if lacking := list_missing(SPEC):
        pytest.skip("; ".join(lacking))
    with Lab.start(SPEC, tmp_path_factory.mktemp("oracle") / "lab") as started:
        yield started


@pytest.mark.wide_with("no window", "careless agent")
@pytest.mark.parametrize(
    ("faulty", "plant", "said"),
    [
        pytest.param(
            named("sshd killed"), agents.HASTY, "lost confirmed acks", id="hasty agent"
        ),
        pytest.param(
            named("witness lost power"),
            agents.CARELESS,
            "lost confirmed acks",
            id="careless agent",
        ),
        pytest.param(
            replace(named("cable out and in"), cut_s=1.0),
            client.BOUNDLESS,
            "acks were unconfirmed",
            id="no window",
        ),
    ],
)
def test_it_sees_a_fault_of_the_witness_s_own(
    lab: Lab, tmp_path: Path, faulty: TrialSpec, plant: str, said: str
) -> None:
    with ExitStack() as stack:
        host = stack.enter_context(witness_host(tmp_path, faulty.fault.disk))
        trial = Trial(faulty, lab, host, tmp_path, plant)
        stack.callback(trial.close)
        trial.strike()
        found = trial.end()
    assert any(said in one for one in found), found


def write_load(folder: Path, cut_us: int, windows: list[dict[str, int]]) -> None:
    node = {"cut": {"exact_us": cut_us, "asked_us": 900}}
    load = {"windows": windows, "nodes": {"server": node}}
    (folder / "load.json").write_text(json.dumps(load))


def made(folder: Path, verdict: str, lost: int = 0) -> Said:
    """Return what a command said that judged so and lists the first *lost* ids."""
    code = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}[verdict]
    (folder / "verdict.json").write_text(f'{{"verdict": "{verdict}"}}')
    write_load(folder, 1000, [{"acks": 3}])
    lines = ["kind,row_id", *(f"missing-tail,{row_id}" for row_id in range(lost))]
    (folder / "losses.csv").write_text("\n".join(lines))
    return Said(code, "", folder)


ACKS = [(1, seq, seq - 1) for seq in range(1, 6)]
SOUND = Facts(
    lying=False,
    window=4,
    records={0: Record(tuple(Received(*ack, 100, 3) for ack in ACKS), 4)},
    logs={0: RawLog(acks=ACKS)},
    rows={ack[:2]: ack[2] for ack in ACKS},
)
TWO_LOST = replace(SOUND, lying=True, rows={ack[:2]: ack[2] for ack in ACKS[2:]})


@pytest.mark.parametrize(
    ("facts", "verdict", "lost", "said"),
    [
        (SOUND, "PASS", 0, ""),
        (SOUND, "FAIL", 0, "honest drive failed"),
        (SOUND, "FAIL", 1, "it lists [0], absent are []"),
        (TWO_LOST, "FAIL", 2, ""),
        (TWO_LOST, "FAIL", 1, "it lists [0], absent are [0, 1]"),
        (TWO_LOST, "PASS", 0, "lying drive passed"),
        (TWO_LOST, "INCONCLUSIVE", 0, "2 confirmed rows are absent"),
        (replace(SOUND, logs={0: RawLog(acks=ACKS[:3])}), "PASS", 0, "lost confirmed"),
        (replace(SOUND, logs={0: RawLog(acks=ACKS[::-1])}), "PASS", 0, "not hold what"),
        (replace(SOUND, window=2), "PASS", 0, "a window of 3 acks"),
        (replace(SOUND, window=1), "PASS", 0, "2 acks were unconfirmed"),
    ],
)
def test_it_complains_of_what_is_wrong(
    tmp_path: Path, facts: Facts, verdict: str, lost: int, said: str
) -> None:
    found = complaints(facts, made(tmp_path, verdict, lost))
    assert bool(found) == bool(said)
    assert said in "\n".join(found)


def test_a_pass_on_old_acks_is_seen(tmp_path: Path) -> None:
    said = made(tmp_path, "PASS")
    write_load(tmp_path, 2_000_000, [])
    (found,) = complaints(SOUND, said)
    assert "newest confirmed is 2.0 s old" in found


def test_silence_where_a_person_waits_is_seen(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text("{}")
    found = "\n".join(complaints(replace(SOUND, rows=None), Said(4, "", tmp_path)))
    assert "without a word" in found
    assert "can be reconciled" in found
