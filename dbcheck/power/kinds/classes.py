"""The class of cut that each kind of switch makes (model.cut)."""

from __future__ import annotations

from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.cut import CutClass

# What each switches, from the manual pages of fence-agents 4.12.  Agents of
# frameworks in front of something else (powerman, ironic, skalar) are not listed.
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
_AGENTS = {
    f"fence_{name}": cut_class
    for cut_class, names in (
        (CutClass.AC, _OUTLETS),
        (CutClass.BMC_OFF, _BOARDS),
        (CutClass.HYPERVISOR_KILL, _HYPERVISORS),
    )
    for name in names
}


def of_agent(agent: str, declared: CutClass | None) -> CutClass:
    """Return what *agent*, a name or a path, cuts; raise UsageError if *declared* is
    another class than that of an agent that is known."""
    name = Path(agent).name
    return agreed(name, _AGENTS.get(name), declared)


def agreed(what: str, known: CutClass | None, declared: CutClass | None) -> CutClass:
    """Return the class of a switch; raise UsageError if what is declared is not true.

    what: names the switch.  known, declared: None if it is not.
    """
    if known and declared and known is not declared:
        raise UsageError(
            f"{what} makes cuts of class {known.value!r}, but {declared.value!r} is "
            "declared",
            id=ErrorId.POWER_CLASS_DIFFERS,
            hint="Remove dbcheck_power_class, or use a switch that makes such cuts.",
        )
    return known or declared or CutClass.UNKNOWN
