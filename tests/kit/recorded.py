"""What the programs of the switch recipes print, each with where that is from."""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.model.cut import PowerState
from tests.kit.plugs import Answer

_ON, _OFF = PowerState.ON, PowerState.OFF
_HUB = "Current status for hub 1-1 [2109:3431 USB2.0 Hub, USB 2.10, 4 ports, ppps]\n"
_PORT = "  Port 2: 0503 power highspeed enable connect [174c:55aa ASMT USB3.0 SSD]\n"
_NO_POWER = "  Port 2: 0000 off\n"
_VIRSH = "-c qemu+ssh://root@hypervisor1.example.net/system"
_QM = "-o BatchMode=yes root@pve1.example.net qm"
_INSTANCE = "--instance-ids i-0123456789abcdef0"
_AZ = "--resource-group databases --name db1"
_CODES = "--query instanceView.statuses[].code --output tsv"
_OUTLET = "-Oqv pdu1.example.net .1.3.6.1.4.1.318.1.1.12.3.5.1.1.4.7"

# By the recipe: the program, and its answers.
PROGRAMS: Mapping[str, tuple[str, Mapping[str, Answer]]] = {
    # As labgrid-client 26.0.1 printed it to a coordinator and an exporter of its own.
    "labgrid": (
        "labgrid-client",
        {
            "-p db1 power get": Answer(
                "power for place db1 is on\n", "power for place db1 is off\n"
            ),
            "-p db1 power off": Answer(then=_OFF),
            "-p db1 power on": Answer(then=_ON),
        },
    ),
    # uhubctl 2.5.0: README.md, and print_port_status in uhubctl.c.
    "uhubctl": (
        "uhubctl",
        {
            "-l 1-1 -p 2": Answer(_HUB + _PORT, _HUB + _NO_POWER),
            "-l 1-1 -p 2 -a off": Answer(
                f"{_HUB}{_PORT}Sent power off request\n{_HUB}{_NO_POWER}", then=_OFF
            ),
            "-l 1-1 -p 2 -a on": Answer(
                off=f"{_HUB}{_NO_POWER}Sent power on request\n{_HUB}{_PORT}", then=_ON
            ),
        },
    ),
    # Yepkit/ykush, src/ykush/ykush.cpp: ykush_cmd_parser.
    "ykush": (
        "ykushcmd",
        {
            "-g 2": Answer(
                "\n\nDownstream port 2 is ON\n\n", "\n\nDownstream port 2 is OFF\n\n"
            ),
            "-d 2": Answer(then=_OFF),
            "-u 2": Answer(then=_ON),
        },
    ),
    # As virsh 9.0.0 printed it to libvirtd with the test driver.
    "libvirt": (
        "virsh",
        {
            f"{_VIRSH} domstate db1": Answer("running\n\n", "shut off\n\n"),
            f"{_VIRSH} destroy db1": Answer("Domain 'db1' destroyed\n\n", then=_OFF),
            f"{_VIRSH} start db1": Answer(off="Domain 'db1' started\n\n", then=_ON),
        },
    ),
    # proxmox/qemu-server, PVE/CLI/qm.pm: status; stop and start print nothing.
    "proxmox": (
        "ssh",
        {
            f"{_QM} status 101": Answer("status: running\n", "status: stopped\n"),
            f"{_QM} stop 101": Answer(then=_OFF),
            f"{_QM} start 101": Answer(then=_ON),
        },
    ),
    # AWS CLI reference, ec2: describe-instances, stop-instances, start-instances.
    "aws": (
        "aws",
        {
            f"ec2 describe-instances {_INSTANCE} "
            "--query Reservations[].Instances[].State.Name --output text": Answer(
                "running\n", "stopped\n"
            ),
            f"ec2 stop-instances {_INSTANCE} --force --skip-os-shutdown": Answer(
                '{"StoppingInstances": []}\n', then=_OFF
            ),
            f"ec2 start-instances {_INSTANCE}": Answer(
                off='{"StartingInstances": []}\n', then=_ON
            ),
        },
    ),
    # Azure CLI reference, az vm: get-instance-view, stop, start.
    "azure": (
        "az",
        {
            f"vm get-instance-view {_AZ} {_CODES}": Answer(
                "ProvisioningState/succeeded\nPowerState/running\n",
                "ProvisioningState/succeeded\nPowerState/stopped\n",
            ),
            f"vm stop {_AZ} --skip-shutdown": Answer(then=_OFF),
            f"vm start {_AZ}": Answer(then=_ON),
        },
    ),
    # gcloud reference, compute instances reset; the instance runs on.
    "gcloud": (
        "gcloud",
        {
            "compute instances reset db1 --zone=europe-west1-b --quiet": Answer(
                "Updated [https://www.googleapis.com/compute/v1/projects/p/zones/"
                "europe-west1-b/instances/db1].\n"
            ),
        },
    ),
    # As snmpget 5.9.3 printed it to snmpd with an object of that number.
    "pdudaemon": ("snmpget", {_OUTLET: Answer("1\n", "2\n")}),
    # As ipmitool 1.8.19 printed it to ipmi_sim 2.0.33.
    "ipmi": (
        "ipmitool",
        {
            "*chassis power status": Answer(
                "Chassis Power is on\n", "Chassis Power is off\n"
            ),
            "*chassis power off": Answer(
                "Chassis Power Control: Down/Off\n", then=_OFF
            ),
            "*chassis power on": Answer(off="Chassis Power Control: Up/On\n", then=_ON),
        },
    ),
}
# By the recipe: what is printed when nothing can be said of the power.
UNCLEAR: Mapping[str, Mapping[str, str]] = {
    "uhubctl": {
        "the twin of a USB 3 hub is still on": f"{_HUB}  Port 2: 02a0 power 5gbps "
        f"Rx.Detect\n{_HUB}{_NO_POWER}",
        "the port cannot be read": _HUB,
        "another port": f"{_HUB}  Port 3: 0000 off\n",
    },
    # The byte of an answer that never came is 0.
    "ykush": {"there is no such board": "\n\nDownstream port 0 is OFF\n\n"},
    "libvirt": {"it is paused": "paused\n\n", "it is ending": "in shutdown\n\n"},
    "proxmox": {"it is paused": "status: paused\n", "unknown": "status: unknown\n"},
    "azure": {"it is gone": "ProvisioningState/succeeded\nPowerState/deallocated\n"},
    "aws": {"it is gone": "terminated\n", "there is none": ""},
    "labgrid": {"no outlet": "labgrid-client: Error: target has no compatible\n"},
    "pdudaemon": {"the outlet is switched twice": "3\n"},
}
