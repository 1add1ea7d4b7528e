"""Values of points: those that a server has, and none that a shell would take apart."""

from __future__ import annotations

import pytest

from dbcheck.base.points import Point, PointKind, name_restore_point
from dbcheck.runs.folder import new_run_id

HONEST = [
    (PointKind.LSN, "0/0"),
    (PointKind.LSN, "16/B374D848"),
    (PointKind.GTID, "0-1-270"),
    (PointKind.GTID, "0-1-270,1-3211-18446744073709551615"),
    (PointKind.RESTORE_POINT, "before_release-7"),
]
WRONG = [
    (PointKind.LSN, ""),
    (PointKind.LSN, "0/3000148; drop"),
    (PointKind.LSN, "0/3000148\n"),
    (PointKind.LSN, "0-1-270"),
    (PointKind.GTID, ""),
    (PointKind.GTID, "0-1-270,"),
    (PointKind.GTID, "0/3000148"),
    (PointKind.RESTORE_POINT, "$(id)"),
    (PointKind.RESTORE_POINT, "'"),
    (PointKind.RESTORE_POINT, "a" * 64),
]


@pytest.mark.parametrize(("kind", "value"), HONEST)
def test_a_value_of_a_server_is_a_point(kind: PointKind, value: str) -> None:
    assert Point(kind, value).value == value


@pytest.mark.parametrize(("kind", "value"), WRONG)
def test_another_value_is_none(kind: PointKind, value: str) -> None:
    with pytest.raises(ValueError, match=f"is no {kind.value}"):
        Point(kind, value)


def test_each_run_has_a_restore_point_of_its_own() -> None:
    names = {name_restore_point(new_run_id("20261201-144113")) for _ in range(3)}
    assert len(names) == 3
    for name in names:
        assert Point(PointKind.RESTORE_POINT, name).value.startswith("dbcheck_2026")
