"""Variables of an inventory that several kinds of switches have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from dbcheck.base import limits
from dbcheck.config.validated import one_of
from dbcheck.model.cut import DECLARABLE, CutClass
from dbcheck.power.kinds.plan import Fields, PowerPlan

POWER = "dbcheck_power"
CLASS, OPTIONS = f"{POWER}_class", f"{POWER}_options"
PASSWORD, PLUG = f"{POWER}_password", f"{POWER}_plug"
OTHERS: Mapping[str, Any] = {  # variables without a field: what each may be
    CLASS: Annotated[
        str,
        one_of(DECLARABLE),
        Meta(
            description="What the cut takes the power from; it limits what a PASS "
            "claims."
        ),
    ],
    OPTIONS: Annotated[
        dict[str, Any],
        Meta(
            description="`fence`: options of the agent, as its manual page names them."
        ),
    ],
    PLUG: Annotated[
        str, Meta(description="`fence`: the outlet or the name of the machine.")
    ],
}
_PREFIX = f"{POWER}_"
_KEYS = {"name": "lab"}  # the field of a plan -> its variable, where they differ
_GIVEN = frozenset({"declared", "options", "secrets"})  # not variables by these names

OffSeconds = Annotated[
    float,
    Meta(ge=limits.OFF_S_MIN, le=limits.OFF_S_MAX),
    Meta(description="Seconds without power, at least."),
]
Seconds = Annotated[
    float,
    Meta(ge=limits.SECONDS_MIN, le=limits.SECONDS_MAX),
    Meta(description="Seconds that each call of an agent or a program may take."),
]
P = TypeVar("P", bound=PowerPlan)


def variables(kind: type[PowerPlan]) -> dict[str, str]:
    """Return each variable that is a field of a plan, with the field's name."""
    names = [field.name for field in fields_of(kind) if field.name not in _GIVEN]
    return {f"{_PREFIX}{_KEYS.get(name, name)}": name for name in names}


def read(kind: type[P], fields: Fields, **given: Mapping[str, Any]) -> P:
    """Return the plan that *fields* hold; raise UsageError naming the key.

    given: what is not in variables(), but for the class that is declared.
    """
    keys = {
        name: key for name, key in _KEYS.items() if name in kind.__dataclass_fields__
    }
    return fields.read(
        kind, _PREFIX, given={"declared": _declared(fields), **given}, keys=keys
    )


def withhold_secrets(fields: Fields) -> None:
    """Have no child process but a switch's inherit what the variables name.

    That is a side effect of reading them, and wanted whatever the kind: a program of
    an exec switch may log in with such a secret, too.
    """
    fields.options(OPTIONS)
    fields.secret(PASSWORD)


def _declared(fields: Fields) -> CutClass | None:
    found = fields.value(CLASS, OTHERS[CLASS], None)
    return CutClass(found) if found else None
