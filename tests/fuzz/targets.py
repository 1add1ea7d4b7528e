"""Every target."""

from __future__ import annotations

from tests.fuzz import (
    on_canary,
    on_lab,
    on_log,
    on_mysql,
    on_rows,
    on_serverlog,
    on_stored,
    on_text,
    on_wire,
)

_MODULES = (
    *(on_log, on_wire, on_stored, on_text, on_canary, on_mysql),
    *(on_rows, on_serverlog, on_lab),
)

TARGETS = {target.name: target for module in _MODULES for target in module.TARGETS}
