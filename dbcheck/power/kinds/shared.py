"""Parts that kinds of switches share: variables, and classes of cuts (model.cut)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.validated import one_of
from dbcheck.model.cut import DECLARABLE, CutClass
from dbcheck.power.kinds.config import Fields, SwitchConfig

# Agents by what they switch, from the manual pages of fence-agents 4.12.  Agents for
# frameworks that switch other devices (powerman, ironic, skalar) are not listed.
_OUTLETS = (
    *("apc", "apc_snmp", "cdu", "cyberpower_ssh", "eaton_snmp", "eaton_ssh", "emerson"),
    *("eps", "ipdu", "lindypdu", "netio", "raritan", "raritan_px3"),
    *("tripplite_snmp", "wti"),
)
_BOARDS = (
    *("alom", "amt", "amt_ws", "bladecenter", "cisco_ucs", "drac", "drac5", "hds_cb"),
    *("hpblade", "ibmblade", "idrac", "ilo", "ilo2", "ilo3", "ilo3_ssh", "ilo4"),
    *("ilo4_ssh", "ilo5", "ilo5_ssh", "ilo6", "ilo_moonshot", "ilo_mp", "ilo_ssh"),
    *("imm", "intelmodular", "ipmilan", "ipmilanplus", "redfish", "rsa", "rsb"),
)
_HYPERVISORS = (
    *("aliyun", "aws", "azure_arm", "ecloud", "gce", "ibm_powervs", "ibm_vpc", "ibmz"),
    *("kubevirt", "ldom", "lpar", "openstack", "pve", "rhevm", "vbox", "virsh", "virt"),
    *("vmware", "vmware_rest", "vmware_soap", "vmware_vcloud", "xenapi", "xvm", "zvm"),
    "zvmip",
)
_CLASS_OF_AGENT = {
    f"fence_{name}": cut_class
    for cut_class, names in (
        (CutClass.AC, _OUTLETS),
        (CutClass.BMC_OFF, _BOARDS),
        (CutClass.HYPERVISOR_KILL, _HYPERVISORS),
    )
    for name in names
}


def find_cut_class_of_agent(agent: str, declared: CutClass | None) -> CutClass:
    """Return the class of cut that *agent*, a name or a path, makes.

    Raise UsageError if *declared* is another class than the agent is known to have.
    """
    name = Path(agent).name
    return require_declared_class(name, _CLASS_OF_AGENT.get(name), declared)


def require_declared_class(
    what: str, known: CutClass | None, declared: CutClass | None
) -> CutClass:
    """Return the class of a switch; raise UsageError if the declared class is wrong.

    what: names the switch.  known, declared: None if the class is not known, or not
    declared.
    """
    if known and declared and known is not declared:
        raise UsageError(
            f"{what} makes cuts of class {known.value!r}, but {declared.value!r} is "
            "declared",
            id=ErrorId.POWER_CLASS_DIFFERS,
            hint="Remove dbcheck_power_class, or use a switch that makes such cuts.",
        )
    return known or declared or CutClass.UNKNOWN


POWER = "dbcheck_power"
CLASS, OPTIONS = f"{POWER}_class", f"{POWER}_options"
PASSWORD, PLUG = f"{POWER}_password", f"{POWER}_plug"
# The variables that are no field of a config -> the type of their values.
TYPES_OF_OTHERS: Mapping[str, Any] = {
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
# Field of a config -> its variable without the prefix, if the names differ.
_VARIABLE_OF_FIELD = {"name": "lab"}
# The fields of configs that have no variable of their name.
_OTHER_FIELDS = frozenset({"declared", "options", "secrets"})

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
P = TypeVar("P", bound=SwitchConfig)


def list_variables(kind: type[SwitchConfig]) -> dict[str, str]:
    """Return each variable that is a field of a config, with the field's name."""
    names = [field.name for field in fields_of(kind) if field.name not in _OTHER_FIELDS]
    return {f"{_PREFIX}{_VARIABLE_OF_FIELD.get(name, name)}": name for name in names}


def read_config(kind: type[P], fields: Fields, **given: Mapping[str, Any]) -> P:
    """Return the config that *fields* hold; raise UsageError naming the key.

    given: values of the fields that are not in list_variables(), except `declared`.
    """
    keys = {
        name: key
        for name, key in _VARIABLE_OF_FIELD.items()
        if name in kind.__dataclass_fields__
    }
    return fields.read(
        kind,
        _PREFIX,
        given={"declared": _read_declared_class(fields), **given},
        keys=keys,
    )


def withhold_secrets(fields: Fields) -> None:
    """Withhold the secrets' variables from all child processes but a switch's.

    Reading a secret withholds its variable.  This is wanted for every kind of switch,
    as the program of an exec switch may log in with such a secret, too.
    """
    fields.options(OPTIONS)
    fields.secret(PASSWORD)


def _read_declared_class(fields: Fields) -> CutClass | None:
    declared = fields.value(CLASS, TYPES_OF_OTHERS[CLASS], None)
    return CutClass(declared) if declared else None
