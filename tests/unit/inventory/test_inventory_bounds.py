"""Templates of an inventory whose values grow, and how far they may."""

from __future__ import annotations

from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from tests.kit.inventories import loaded
from tests.kit.refusals import refused

TEMPLATES = "all:\n  hosts: {h: }\n  vars:\n    v8: ''\n" + "".join(
    f"    v{n}: '{f'{{{{ v{n + 1} }}}}' * 1000}'\n" for n in range(1, 8)
)


def test_a_value_is_filled_in_once(tmp_path: Path) -> None:
    """Else it would be 1000 to the power of 7 times."""
    target = "    dbcheck_target: 'postgresql://{{ v1 }}'\n"
    found = loaded(tmp_path, TEMPLATES + target)
    assert found.entry("h").target == "postgresql://"


def test_a_value_does_not_grow_beyond_measure(tmp_path: Path) -> None:
    text = TEMPLATES.replace("v8: ''", "v8: x") + "    dbcheck_target: '{{ v1 }}'\n"
    with refused(
        ErrorId.INVENTORY_VALUE_TOO_LONG,
        UsageError,
        naming="too long with its variables replaced",
    ):
        loaded(tmp_path, text).entry("h")
