"""By which code of the server's error an error of dbcheck is told from others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.link import error_code as number_of
from dbcheck.engines.postgresql.link import error_code as state_of
from tests.kit.refusals import refused


class Failure(Exception):
    """What a driver raises."""

    errno, pgcode = 1142, "42501"


@pytest.mark.parametrize(
    ("code_of", "code"), [(number_of, Failure.errno), (state_of, Failure.pgcode)]
)
@pytest.mark.parametrize("hidden", [False, True])
def test_the_code_is_that_of_the_driver_s_error_also_where_that_is_not_shown(
    code_of: Callable[[EngineError], object], code: object, hidden: bool
) -> None:
    failure = Failure()
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="denied") as at:
        try:
            raise failure
        except Failure:
            cause = None if hidden else failure
            raise EngineError("denied", id=ErrorId.STATEMENT_FAILED) from cause
    assert code_of(at.value) == code
    assert code_of(EngineError("denied", id=ErrorId.STATEMENT_FAILED)) is None
