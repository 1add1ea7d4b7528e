"""What is restored is what the run was to restore, however much later that is done."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.points import PointKind
from dbcheck.cycle.restored import restored_copy
from dbcheck.cycle.rig import Rig
from dbcheck.ports.site import Copying
from tests.kit.copied_run import stored_copied_run
from tests.kit.refusals import refused


@pytest.mark.parametrize("kind", [PointKind.LSN, PointKind.RESTORE_POINT])
def test_a_copy_is_not_restored_by_a_program_that_takes_a_point(
    tmp_path: Path, kind: PointKind
) -> None:
    """The inventory was changed since: its program would get one argument less."""
    nothing = cast(Any, None)
    rig: Any = SimpleNamespace(copying=Copying(nothing, nothing, until=kind))
    run = stored_copied_run(tmp_path)
    with (
        refused(ErrorId.RESTORE_NOT_SET_UP, UsageError, naming="no point was read"),
        restored_copy(cast(Rig, rig), run),
    ):
        raise AssertionError("it was restored")
