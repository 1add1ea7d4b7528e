"""Variables of an inventory that several kinds of switches have."""

from __future__ import annotations

from dbcheck import limits
from dbcheck.core.cutclass import DECLARABLE, CutClass
from dbcheck.power.kinds.plan import Fields

POWER = "dbcheck_power"
OFF_S, TIMEOUT_S, CLASS = f"{POWER}_off_s", f"{POWER}_timeout_s", f"{POWER}_class"
OPTIONS, PASSWORD = f"{POWER}_options", f"{POWER}_password"
VARIABLES = (POWER, OFF_S, TIMEOUT_S, CLASS, OPTIONS)


def withhold_secrets(fields: Fields) -> None:
    """Have no child process but a switch's inherit what the variables name.

    That is a side effect of reading them, and wanted whatever the kind: a program of
    an exec switch may log in with such a secret, too.
    """
    fields.options(OPTIONS)
    fields.secret(PASSWORD)


def off_s(fields: Fields) -> float:
    """Return the seconds without power, at least."""
    found = fields.number(OFF_S, limits.OFF_S_MIN, limits.OFF_S_MAX)
    return limits.OFF_S if found is None else found


def timeout_s(fields: Fields) -> float:
    """Return the seconds that one call of the switch may take."""
    found = fields.number(TIMEOUT_S, limits.SECONDS_MIN, limits.SECONDS_MAX)
    return limits.POWER_TIMEOUT_S if found is None else found


def declared(fields: Fields) -> CutClass | None:
    """Return the class of cut that is declared, None if there is none."""
    if not fields.text(CLASS):
        return None
    return CutClass(fields.choice(CLASS, DECLARABLE, ""))
