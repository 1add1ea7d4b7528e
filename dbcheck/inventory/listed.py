"""Reads an inventory with ansible-inventory, which comes with dbcheck.

One that other users can change is refused: inventories name programs to run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

from dbcheck.base import plain, processes
from dbcheck.base.access import require_closed, who_may_write
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError

Variables = dict[str, Any]
_BESIDE = ("group_vars", "host_vars")
_YAML = (".yml", ".yaml", ".json")
_PROGRAMS = (b"#!", b"\x7fELF")  # how they begin
_CONFIG = "ANSIBLE_CONFIG"
_DEFAULT_CONFIGS = ("~/.ansible.cfg", "/etc/ansible/ansible.cfg")
_VAULT, _VAULTS = "ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_IDENTITY_LIST"
_PROMPTS = ("prompt", "prompt_ask_vault_pass")
_TIMEOUT_S = 120
_MESSAGE_MAX = 400
# Ansible refuses to start in a locale that is not UTF-8, or that is not installed.
_LOCALE = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
_SETTINGS = {
    "ANSIBLE_DEBUG": "0",
    "ANSIBLE_DEPRECATION_WARNINGS": "0",
    "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "error",
    "ANSIBLE_FORCE_COLOR": "0",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
    "ANSIBLE_INVENTORY_EXPORT": "0",  # else hosts lack what their groups say
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_VERBOSITY": "0",
    "LC_ALL": _LOCALE,
}
# The environment variables that reading a YAML file needs, besides ANSIBLE_*.  An
# inventory that is a program may need more.
_NEEDED = {
    *("HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONHOME", "PYTHONPATH"),
    *("TMPDIR", "TZ", "USER"),
}
_MARK = re.compile(r"^\[?(?:WARNING|ERROR)\]?: ", re.MULTILINE)
_QUOTED = re.compile(r"(?<=host definition) '.*")  # a line of the file
_PLUGIN = re.compile(r"^Failed to parse inventory with '\w+' plugin: ")
_ORIGIN = re.compile(r"^Origin: (/.*:\d+):\d+$", re.MULTILINE)
_NO_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\U0010ffff]")
_HARMLESS = (
    "Invalid characters were found in group names",
    "Found both group and host with same name",
)
# What Ansible reports besides the cause, since it tries one plugin after the other.
_ASIDE = (
    "Completely failed to parse inventory source",
    "Plugin configuration YAML file, not YAML inventory",
    "no root 'plugin' key found",
)


def require_trusted(path: Path) -> None:
    """Raise UsageError if another user may change *path*, which an inventory is of.

    What is missing is accepted where no other user can make it.
    """
    require_closed(
        path,
        "an inventory",
        ErrorId.INVENTORY_OPEN_TO_OTHERS,
        "An inventory names programs that dbcheck runs. Use one in a folder of your"
        " own; or, if you trust all who could write it,",
    )


def require_no_additions(folder: Path) -> None:
    """Raise UsageError if another user may make group_vars in *folder*.

    Where anybody may write, as in /tmp, Ansible would read what they make there.
    """
    try:
        who = who_may_write(folder, folder.stat())
    except OSError:
        return
    if who:
        raise UsageError(
            f"{who[0]} may add variables to an inventory in {folder}",
            id=ErrorId.INVENTORY_OPEN_TO_OTHERS,
            hint="Ansible reads group_vars and host_vars beside an inventory. Move it"
            " to a folder of your own.",
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """The variables of each host, as Ansible merged them, and the hosts of each group.

    {{ }} is left as it is.  A group holds the hosts of the groups in it as well.
    """

    hosts: Mapping[str, Variables]
    groups: Mapping[str, tuple[str, ...]]


def read_listing(path: Path) -> Listing:
    """Return the hosts and groups that an inventory lists.

    Ansible runs an inventory that is an executable program; one whose name ends as
    that of a YAML file is refused.  Nothing in the working directory has an effect.
    Raise UsageError if it cannot read all of it, or if others may write what it reads.
    """
    for one in _list_files(path):
        require_trusted(one)
        _require_file(one, is_read=one == path or _is_of_variables(one))
        _require_no_program(one)
    require_no_additions(_find_folder(path))
    try:
        done = subprocess.run(
            processes.make_module_command(
                "ansible.cli.inventory", "-i", str(path.resolve()), "--list"
            ),
            cwd="/",  # only root can put anything there that Ansible would use
            env=_make_environment(path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"ansible-inventory did not read {path} within {_TIMEOUT_S} s",
            id=ErrorId.ANSIBLE_INVENTORY_FAILED,
            hint="See what it waits for: ansible-inventory -i "
            f"{shlex.quote(str(path))} --list.",
        ) from None
    messages = _parse_messages(done.stderr.decode(errors="replace"))
    if done.returncode or messages:
        raise _refused_inventory_error(
            path, messages or [f"exit status {done.returncode}"]
        )
    return parse_listing(path, done.stdout)


class _Meta(msgspec.Struct):
    hostvars: dict[str, Variables]


class _Group(msgspec.Struct):
    hosts: list[str] = []
    children: list[str] = []


def parse_listing(path: Path, output: bytes) -> Listing:
    """Parse the output of ansible-inventory: also hosts that have no variable."""
    try:
        found = json.loads(output)
        listed = msgspec.convert(found.pop("_meta"), _Meta).hostvars
        groups = msgspec.convert(found, dict[str, _Group])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _refused_inventory_error(
            path, ["its output is not an inventory"]
        ) from None
    names = (host for group in groups.values() for host in group.hosts)
    hosts = {name: listed.get(name, {}) for name in (*listed, *names)}
    return Listing(hosts, {name: _list_hosts_inside(name, groups) for name in groups})


def _list_hosts_inside(name: str, groups: Mapping[str, _Group]) -> tuple[str, ...]:
    """Return the hosts in a group and in those below it, each once."""
    hosts, below, seen = dict[str, None](), [name], {name}
    for each in below:  # grows while it is walked
        group = groups.get(each, _Group())
        hosts |= dict.fromkeys(group.hosts)
        below += [child for child in group.children if child not in seen]
        seen.update(group.children)
    return tuple(hosts)


def _find_folder(path: Path) -> Path:
    """Return the folder of Ansible's variable files for the inventory *path*."""
    inside = path.resolve()
    return inside if inside.is_dir() else inside.parent


def _list_files(path: Path) -> Iterator[Path]:
    """Yield the files and folders that Ansible reads, or runs, for *path*."""
    for one in (path, *(_find_folder(path) / name for name in _BESIDE)):
        yield one
        seen = set()
        for folder, folders, files in os.walk(one, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link leads back
                folders.clear()
                continue
            seen.add(real)
            yield from (Path(folder, name) for name in (*folders, *files))


def _require_file(path: Path, *, is_read: bool) -> None:
    """Raise UsageError for what Ansible would wait for, or read without end.

    is_read: the whole of it for certain, so it must not be large.  What is missing, or
    this user may not read, is left to Ansible.
    """
    try:
        with plain.open_regular(path) as file:
            if is_read:
                plain.require_size(file, plain.TEXT_MAX)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
        return
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            id=ErrorId.ANSIBLE_INVENTORY_FAILED,
            hint="Put a regular file there, or move it elsewhere: Ansible reads it with"
            " the inventory.",
        ) from None


def _is_of_variables(path: Path) -> bool:
    """Return True if Ansible reads it in group_vars or host_vars by its name."""
    is_beside = not set(path.parts).isdisjoint(_BESIDE)
    return is_beside and path.suffix in ("", *_YAML)


def _require_no_program(path: Path) -> None:
    """Raise UsageError if a file with the name of a YAML file is a program.

    Ansible would run it in a folder of inventories, and where it names the plugin for
    programs, as YAML (ansible.builtin.script, ansible.builtin.auto).
    """
    if path.suffix not in _YAML or not path.is_file() or not os.access(path, os.X_OK):
        return
    try:
        with plain.open_regular(path) as file:
            if not file.read(4).startswith(_PROGRAMS):
                return
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            id=ErrorId.ANSIBLE_INVENTORY_FAILED,
            hint="The user who runs dbcheck must be able to read the inventory.",
        ) from None
    raise UsageError(
        f"{path} is a program, with the name of a YAML file",
        id=ErrorId.ANSIBLE_INVENTORY_FAILED,
        hint="Rename it if it is to be run; else run: chmod a-x"
        f" {shlex.quote(str(path))}",
    )


def _make_environment(path: Path) -> dict[str, str]:
    """Return our environment with what makes Ansible read only what it should.

    A configuration in the working directory counts if ANSIBLE_CONFIG names it.  Which
    variables the inventory names as secrets is not known yet, so few are passed on.
    """
    env = processes.make_environment()
    if path.suffix in _YAML:
        env = {k: v for k, v in env.items() if k in _NEEDED or k.startswith("ANSIBLE_")}
        env["ANSIBLE_INVENTORY_ENABLED"] = "yaml,auto"  # not script, which would run it
    # Ansible makes a folder of its own in it, and removes that also if we are killed.
    env |= {**_SETTINGS, "ANSIBLE_LOCAL_TEMP": tempfile.gettempdir()}
    for name in (_CONFIG, _VAULT):  # as Ansible resolves them where it was started
        if value := env.get(name):
            env[name] = str(_resolve_setting(value))
            _require_sound_settings(Path(env[name]))
    if config := env.get(_CONFIG):  # or the folder that it is in
        _require_sound_settings(Path(config, "ansible.cfg"))
    for value in _DEFAULT_CONFIGS:
        _require_sound_settings(_resolve_setting(value))
    for value in _parse_vault_files(env.get(_VAULTS, "")):  # from where Ansible starts
        _require_sound_settings(
            Path("/", os.path.expanduser(os.path.expandvars(value)))
        )
    return env


def _require_sound_settings(path: Path) -> None:
    """Raise UsageError for a setting of Ansible's that it must not read."""
    require_trusted(path)
    _require_file(path, is_read=True)


def _parse_vault_files(text: str) -> Iterator[str]:
    """Yield the files in a list of vault ids, each FILE, LABEL@FILE or LABEL@prompt."""
    for one in text.split(","):
        label, at, rest = one.strip().partition("@")
        source = rest if at else label
        if source and source not in _PROMPTS:
            yield source


def _resolve_setting(value: str) -> Path:
    """Return the path that Ansible makes of a setting, from where we were started."""
    return Path(os.path.abspath(os.path.expanduser(os.path.expandvars(value))))


def _parse_messages(stderr: str) -> list[str]:
    """Return Ansible's warnings, with file and line if it names them.

    Not the lines of the file that it shows: they may hold a secret.
    """
    found: dict[str, str] = {}
    for block in _MARK.split(stderr)[1:]:
        message = _PLUGIN.sub("", block.partition("\n")[0]).partition(", got: ")[0]
        message = _QUOTED.sub("", message)
        if message.startswith(_HARMLESS):
            continue
        origin = _ORIGIN.search(block)
        found[message] = f" ({origin[1]})" if origin else found.get(message, "")
    causes = [m for m in found if not m.startswith(_ASIDE)] or list(found)
    return [f"{message.rstrip('.')}{found[message]}" for message in causes]


def _find_faults(path: Path) -> Iterator[str]:
    """Yield each line of the files of an inventory that no YAML can have.

    Ansible 2.19 names neither file nor line of those in group_vars and host_vars.
    """
    for one in _list_files(path):
        if one == path or _is_of_variables(one):
            with contextlib.suppress(OSError):
                content = plain.read_regular(one)
                text = content.decode("utf-8", "surrogateescape")
                if found := _NO_TEXT.search(text):
                    line = text.count("\n", 0, found.start()) + 1
                    yield f"line {line} of {one} is not UTF-8 text"
                elif _is_of_variables(one) and (line := _find_invalid_line(text)):
                    yield f"line {line} of {one} is not YAML"


def _find_invalid_line(text: str) -> int:
    """Return the number of a line that is not YAML, 0 if there is none."""
    try:
        for _ in yaml.parse(text):
            pass
    except yaml.MarkedYAMLError as error:
        return 1 + int((error.problem_mark or error.context_mark).line)
    return 0


def _refused_inventory_error(path: Path, messages: list[str]) -> UsageError:
    text = "; ".join((*_find_faults(path), *messages))[:_MESSAGE_MAX]
    id = ErrorId.ANSIBLE_INVENTORY_FAILED
    hint = (
        f"For all messages, run: ansible-inventory -i {shlex.quote(str(path))} --list"
    )
    if "decrypt" in text:
        id = ErrorId.VAULT_PASSWORD_MISSING
        hint = f"Set {_VAULT} to the file with the vault's password."
    return UsageError(f"ansible-inventory cannot read {path}: {text}", id=id, hint=hint)
