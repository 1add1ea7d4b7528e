"""Which servers have no crash canary."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, NoCanary
from dbcheck.engines.mysql.canary import _require_myisam, plant
from dbcheck.engines.mysql.link import MysqlLink
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("name", "value"),
    [("myisam_recover_options", "BACKUP"), ("sql_require_primary_key", "ON")],
)
def test_a_server_whose_settings_forbid_a_canary_is_told_what_to_do(
    name: str, value: str
) -> None:
    with refused(
        ErrorId.CANARY_NEEDS_SETTING, NoCanary, naming=(name, value)
    ) as caught:
        _require_myisam({name: value}, "dbcheck@%")
    for way in (f"{name} = OFF", "--target-host", "grant select on"):
        assert way in caught.value.hint


def test_a_canary_that_the_server_refuses_says_what_to_do() -> None:
    def connect() -> MysqlLink:
        raise EngineError("no", id=ErrorId.PRIVILEGE_MISSING, hint="Grant it.")

    with refused(ErrorId.CANARY_NOT_POSSIBLE, NoCanary, naming="no") as caught:
        plant(connect, "dbcheck", 1, local=False)
    assert caught.value.hint == "Grant it."
