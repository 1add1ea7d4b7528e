"""Reads what the host's tools and the kernel's files show, unchanged.

It reads, and changes nothing; what the texts mean is decided where they are received
(audit/printed.py).
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess

from dbcheck.agent.wire import read_first_line

DENIAL = re.compile("permission denied|not permitted|must be root", re.IGNORECASE)
TOOL_TIMEOUT_S = 10
LINE_MAX = 200
# Where Broadcom's, Dell's and HPE's packages put their programs, in no PATH.
VENDOR_FOLDERS = (
    *("/opt/MegaRAID/storcli", "/opt/MegaRAID/perccli"),
    *("/opt/MegaRAID/storcli2", "/opt/MegaRAID/perccli2"),
    *("/opt/smartstorageadmin/ssacli/bin", "/opt/hp/hpssacli/bld"),
)
PATHS = os.pathsep.join(
    (os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *VENDOR_FOLDERS)
)


def find_program(name: str) -> str:
    """Return the path of a program, "" if it is not installed."""
    return shutil.which(name, path=PATHS) or ""


def read_output(name: str, *arguments: str) -> tuple[str, str]:
    """Return a program's output, and "" or the reason why it failed.

    smartctl's exit status is a set of bits, of which the first two mean that smartctl
    itself failed (smartctl(8)).
    """
    program = find_program(name)
    if not program:
        return "", f"{name} is not installed"
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_TIMEOUT_S,
            env={"PATH": PATHS, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{name}: {type(error).__name__}"
    text = done.stdout.decode(errors="replace")
    failure_status = done.returncode & 3 if name == "smartctl" else done.returncode
    if failure_status:
        why = pick_reason_line(
            done.stderr.decode(errors="replace")
        ) or find_reason_in_output(text)
        return text, f"{name}: {why or f'exit status {done.returncode}'}"
    return text, ""


def find_reason_in_output(text: str) -> str:
    """Return a program's failure, by what it prints, "" if unknown.

    smartctl has a list of messages in its JSON, with their severity (smartctl(8),
    --json), and prints nothing else; nvme has an error there (nvme-cli 2,
    nvme-print-json.c), and storcli a description of each controller's status.  ssacli
    has lines.
    """
    try:
        shown = json.loads(text)
    except (ValueError, RecursionError):
        lines = (line for line in text.splitlines() if line.startswith("Error"))
        return shorten(next(lines, ""))
    try:
        if "smartctl" in shown:
            messages = list(shown["smartctl"]["messages"])
            errors = (
                message for message in messages if message.get("severity") == "error"
            )
            return shorten(next(errors, messages[0])["string"])
        if "Controllers" in shown:
            return shorten(shown["Controllers"][0]["Command Status"]["Description"])
        return shorten(shown["error"])
    except (LookupError, TypeError, AttributeError):
        return ""


def shorten(text: str) -> str:
    """Return the first line of a text, not too long."""
    return text.strip().splitlines()[0][:LINE_MAX] if text.strip() else ""


def pick_reason_line(printed_errors: str) -> str:
    """Return the line that says why a program could not do its work, "" without any.

    A line that names a missing right comes first, as nvme prints its usage after it.
    Else it is the first line: dmsetup's last line says only that a command failed.
    """
    lines = [line.strip() for line in printed_errors.splitlines() if line.strip()]
    denials = [line for line in lines if DENIAL.search(line)]
    return shorten((denials or lines or [""])[0])


BLOCK = "/sys/class/block"
TEXT_BYTES_MAX = 64 << 10
RAID_BYTES_MAX = 512 << 10
DEVICES_MAX = 64
DEVICE_NAME = re.compile(r"[A-Za-z0-9!._-]{1,64}")  # of a block device in /sys
DATASET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.:/@-]{0,255}")  # of ZFS
# Files below the folder of a block device in /sys, as patterns.
DEVICE_FILES = (
    "queue/rotational",
    "cache_type",  # of virtio-blk
    "device/rev",
    "device/firmware_rev",
    "device/scsi_disk/*/cache_type",
    "device/../../scsi_host/*/proc_name",  # the driver of its controller
    "bcache/cache_mode",
    "bcache/state",
    "md/journal_mode",
    "md/array_state",
)
HOST_FILES = (
    "/proc/sys/kernel/osrelease",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/module/zfs/parameters/zfs_nocacheflush",
    "/run/systemd/container",
)
DOCKER = "/.dockerenv"
# A line of a table of device-mapper: start, length, target, options.
TABLE_LINE = re.compile(r"(\d+) (\d+) ([a-z0-9-]+)(.*)")
# Targets whose options are shown; the options of dm-crypt have the name of a key.
SHOWN_TARGETS = ("cache", "writecache", "integrity", "flashcache", "era", "raid")
STORCLI = ("storcli64", "storcli", "perccli64", "perccli", "storcli2", "perccli2")
SSACLI = ("ssacli", "hpssacli", "hpacucli")  # names of one program since 2009
RAID_COMMANDS = {
    **{tool: (tool, "/call", "show", "all", "J") for tool in STORCLI},
    **{f"{tool} vall": (tool, "/call/vall", "show", "all", "J") for tool in STORCLI},
    **{tool: (tool, "ctrl", "all", "show", "config", "detail") for tool in SSACLI},
}


def read_everything(devices: list[str], datasets: list[str]) -> list[dict[str, str]]:
    """Read files and tools about the host, block devices and ZFS datasets.

    of: the device or dataset, "" the host.  what: names it.  how: the file or command
    that was read.  text: its content.  why: the reason if it could not be read.
    """
    shown = [read_kernel_file("", path, path) for path in HOST_FILES]
    for kind in ("vm", "container"):
        shown.append(read_virtualization(kind))
    docker = "yes" if os.path.exists(DOCKER) else "no"
    shown.append(make_reading("", DOCKER, DOCKER, docker, ""))
    present_devices = [
        name
        for name in devices[:DEVICES_MAX]
        if DEVICE_NAME.fullmatch(name) and os.path.exists(os.path.join(BLOCK, name))
    ]
    # Imported here: its import takes as long as all others, and every agent would wait.
    from concurrent.futures import ThreadPoolExecutor

    # All at once: a drive that spins up, or hangs, delays each tool.
    with ThreadPoolExecutor(max(1, len(present_devices))) as pool:
        for readings_of_device in pool.map(read_device, present_devices):
            shown += readings_of_device
    for name in datasets[:DEVICES_MAX]:
        if DATASET_NAME.fullmatch(name):
            properties = ("-Hp", "-o", "property,value", "sync,logbias,recordsize")
            shown.append(read_tool(name, "zfs", "zfs", "get", *properties, name))
    shown += [
        read_tool("", what, *command, limit=RAID_BYTES_MAX)
        for what, command in RAID_COMMANDS.items()
        if find_program(command[0])
    ]
    return shown


def read_virtualization(kind: str) -> dict[str, str]:
    """Run systemd-detect-virt(1), which exits with 1 after "none"."""
    command = ("systemd-detect-virt", f"--{kind}")
    text, why = read_output(*command)
    return make_reading("", kind, " ".join(command), text, "" if text.strip() else why)


def read_device(name: str) -> list[dict[str, str]]:
    """Read the kernel's files on a device, and the tools for its kind."""
    folder, device = os.path.join(BLOCK, name), "/dev/" + name
    shown = []
    for pattern in DEVICE_FILES:
        for path in glob.glob(os.path.join(glob.escape(folder), pattern)):
            shown.append(read_kernel_file(name, pattern, path))
    if os.path.exists(os.path.join(folder, "dm")):
        mapper_name = read_first_line(os.path.join(folder, "dm", "name"))
        table = read_tool(name, "dmsetup table", "dmsetup", "table", mapper_name)
        shown.append({**table, "text": remove_keys(table["text"])})
    elif name.startswith("nvme"):
        for verb in ("id-ctrl", "id-ns", "smart-log"):
            command = ("nvme", verb, "-o", "json", device)
            shown.append(read_tool(name, "nvme " + verb, *command))
        command = ("nvme", "get-feature", "-f", "6", device)
        shown.append(read_tool(name, "nvme get-feature", *command))
    elif name.startswith("sd"):
        shown.append(read_tool(name, "hdparm", "hdparm", "-W", device))
        shown.append(read_tool(name, "sdparm", "sdparm", "--get=WCE", device))
        options = ("-j", "-i", "-H", "-A")
        shown.append(read_tool(name, "smartctl", "smartctl", *options, device))
    return shown


def remove_keys(table: str) -> str:
    """Return a table of device-mapper with the options of SHOWN_TARGETS only."""
    lines, is_shown = [], False
    for line in table.splitlines():
        match = TABLE_LINE.match(line.strip())
        if match is not None:
            start, length, kind, options = match.groups()
            is_shown = kind in SHOWN_TARGETS
            lines.append(f"{start} {length} {kind}{options if is_shown else ''}")
        elif is_shown:  # flashcache prints several lines
            lines.append(line)
    return "\n".join(lines)


def read_kernel_file(of: str, what: str, path: str) -> dict[str, str]:
    """Return the first line of a file of the kernel."""
    try:
        with open(path, "rb") as file:
            line = file.readline(TEXT_BYTES_MAX)
    except OSError as error:
        return make_reading(of, what, path, "", error.strerror or str(error))
    return make_reading(of, what, path, line.decode(errors="replace").strip(), "")


def read_tool(
    of: str, what: str, *command: str, limit: int = TEXT_BYTES_MAX
) -> dict[str, str]:
    """Return the output of a tool."""
    text, why = read_output(*command)
    if len(text) > limit:
        text, why = "", f"{command[0]}: it prints more than {limit} bytes"
    return make_reading(of, what, " ".join(command), text, why)


def make_reading(of: str, what: str, how: str, text: str, why: str) -> dict[str, str]:
    """Return one reading; see read_everything()."""
    return {"of": of, "what": what, "how": how, "text": text, "why": why}
