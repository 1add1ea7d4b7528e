"""Every target."""

from __future__ import annotations

from tests.fuzz import (
    on_audit,
    on_canary,
    on_lab,
    on_log,
    on_mysql,
    on_optionfile,
    on_rows,
    on_serverlog,
    on_sql,
    on_ssh,
    on_sshargs,
    on_stored,
    on_text,
    on_wire,
)

# What reads from other hosts comes first: a witness, a server, a target's host.
_MODULES = (
    *(on_wire, on_log, on_sql, on_mysql, on_rows, on_canary, on_serverlog, on_audit),
    *(on_stored, on_text, on_optionfile, on_lab, on_ssh, on_sshargs),
)

TARGETS = {target.name: target for module in _MODULES for target in module.TARGETS}
