"""A lab whose server keeps its log on a second virtual drive."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from tests.kit.refusals import refused
from tests.kit.rigs import CUTS_MAX, bench, witness_lagged

ENGINES = ("postgresql", "mariadb", "mysql")


@pytest.mark.wide_with("mysql", "honest-Verdict.PASS-mariadb")
@pytest.mark.root
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("personality", "verdict"),
    [("honest", Verdict.PASS), ("lying", Verdict.FAIL)],
)
def test_cuts_of_two_drives(
    engine: str, personality: str, verdict: Verdict, tmp_path: Path
) -> None:
    spec = LabSpec(engine, drive=DriveSpec(personality=personality), log_drive=True)
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    for number in range(CUTS_MAX):
        with bench(spec, tmp_path / str(number)) as rig:
            started = rig.cut_cycle()
            host = started.manifest.writer.host
            assert host is not None
            places = [set(volume.places) for volume in host.facts.volumes]
            assert len(places) == 2 and places[1] <= {"WAL", "redo log"}
            drives = [volume.file_drives for volume in host.facts.volumes]
            assert drives[0] != drives[1]
            judgement = rig.judge(started).judgement
        if not witness_lagged(judgement):
            break
    assert judgement.verdict is verdict, judgement


def test_a_plain_folder_has_no_second_drive() -> None:
    with refused(ErrorId.DRIVE_CUT_NEEDED, UsageError, naming="no log drive"):
        LabSpec("postgresql", cut="process", log_drive=True)
