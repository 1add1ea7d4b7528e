"""Reads an inventory: a plain YAML file itself, and all else with ansible-inventory.

An inventory that other users can change is refused: it names programs to run.
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
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import msgspec
import yaml  # type: ignore[import-untyped]

from dbcheck.base import plain, processes
from dbcheck.base.access import require_closed, who_may_write
from dbcheck.base.decoding import convert
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.inventory.yaml_file import (
    Group,
    Listing,
    NotPlain,
    Variables,
    make_listing,
    parse_yaml,
)

_VARIABLE_FOLDERS = ("group_vars", "host_vars")
_YAML_SUFFIXES = (".yml", ".yaml", ".json")
_PLAIN_SUFFIXES = (".yml", ".yaml")
_PACKAGE, _ANSIBLE_MIN = "ansible-core", (2, 19)  # as in setup.cfg
_PROGRAM_STARTS = (b"#!", b"\x7fELF")
_CONFIG_VARIABLE = "ANSIBLE_CONFIG"
# The first one is that of the folder where Ansible is started.
_DEFAULT_CONFIGS = ("/ansible.cfg", "~/.ansible.cfg", "/etc/ansible/ansible.cfg")
# Ansible loads each plugin of these, named or not.
_PLUGIN_FOLDERS = tuple(
    f"{place}/plugins/{kind}"
    for place in ("~/.ansible", "/usr/share/ansible")
    for kind in ("inventory", "vars")
)
_VAULT_VARIABLE, _VAULT_LIST_VARIABLE = (
    "ANSIBLE_VAULT_PASSWORD_FILE",
    "ANSIBLE_VAULT_IDENTITY_LIST",
)
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
    "ANSIBLE_INVENTORY_EXPORT": "0",  # else hosts lack the variables of their groups
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_VERBOSITY": "0",
    "LC_ALL": _LOCALE,
}
# Variables of the environment that change nothing in how a YAML file is read.
_WITHOUT_EFFECT = {*_SETTINGS, "ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_INVENTORY"}
# The environment variables that reading a YAML file needs, besides ANSIBLE_*.  An
# inventory that is a program may need more.
_NEEDED_VARIABLES = {
    *("HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONHOME", "PYTHONPATH"),
    *("TMPDIR", "TZ", "USER"),
}
_MESSAGE_MARK = re.compile(r"^\[?(?:WARNING|ERROR)\]?: ", re.MULTILINE)
_QUOTED_LINE = re.compile(r"(?<=host definition) '.*")  # quotes a line of the file
_PLUGIN_PREFIX = re.compile(r"^Failed to parse inventory with '\w+' plugin: ")
_ORIGIN = re.compile(r"^Origin: (/.*:\d+):\d+$", re.MULTILINE)
_NOT_OF_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\U0010ffff]")
_HARMLESS = (
    "Invalid characters were found in group names",
    "Found both group and host with same name",
)
# What Ansible reports besides the cause, since it tries one plugin after the other.
_NOT_THE_CAUSE = (
    "Completely failed to parse inventory source",
    "Plugin configuration YAML file, not YAML inventory",
    "no root 'plugin' key found",
)


def require_trusted(path: Path) -> None:
    """Raise UsageError if another user may change *path*, a part of an inventory.

    A missing path is accepted if no other user can make it.
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

    In a folder where anybody may write, as /tmp, Ansible would read their files.
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


def read_listing(path: Path) -> Listing:
    """Return the hosts and groups that an inventory lists.

    A plain YAML file is read here, all else by Ansible.  Ansible runs an inventory that
    is an executable program; a program with the name of a YAML file is refused.
    Nothing in the working directory has an effect.  Raise UsageError if Ansible is
    needed and missing, if it cannot read all of the inventory, or if others may write
    to it.
    """
    for file in _list_files(path):
        require_trusted(file)
        _require_file(file, is_read=file == path or _is_of_variables(file))
        _require_no_program(file)
    require_no_additions(_find_folder(path))
    _require_same_beside_link(path)
    try:
        return _read_plain(path)
    except NotPlain as reason:
        _require_ansible(path, reason)
    return _read_by_ansible(path)


def _require_same_beside_link(path: Path) -> None:
    """Raise UsageError if a link's folder has other variables than its file's folder.

    Ansible takes those beside the link that it is given; dbcheck resolves the link.
    """
    if path.is_dir():
        return
    folder, folder_of_link = _find_folder(path), Path(os.path.abspath(path)).parent
    if folder_of_link.resolve() == folder:
        return
    for name in _VARIABLE_FOLDERS:
        places = (folder_of_link / name, folder / name)
        found = [place for place in places if os.path.lexists(place)]
        if found and places[0].resolve() != places[1].resolve():
            raise UsageError(
                f"{path} is a link to {path.resolve()}, and {found[0]} is beside one of"
                " them alone",
                id=ErrorId.INVENTORY_IS_LINK,
                hint="Ansible takes the variables beside a link, dbcheck those beside"
                " its file. Name the file itself, with its variables beside it.",
            )


def _read_plain(path: Path) -> Listing:
    """Read a plain YAML file; raise NotPlain for what needs Ansible in or beside it."""
    if path.is_dir():
        raise NotPlain("is a folder")
    if path.suffix not in _PLAIN_SUFFIXES:
        raise NotPlain(f"does not end in {' or '.join(_PLAIN_SUFFIXES)}")
    if os.access(path, os.X_OK) and path.stat().st_mode & 0o111:
        raise NotPlain("is marked as a program")
    _require_no_settings(path)
    try:
        text = plain.read_regular(path).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise NotPlain("has a byte that is not UTF-8 text", line) from None
    except OSError as error:
        raise _unreadable_error(path, error) from None
    return parse_yaml(text)


def _require_no_settings(path: Path) -> None:
    """Raise NotPlain for what changes, beside a file, how Ansible reads it."""
    for folder in (_find_folder(path), Path("/")):  # where Ansible is started
        for name in _VARIABLE_FOLDERS:
            if os.path.lexists(folder / name):
                raise NotPlain(f"has {folder / name} beside it")
    for setting in sorted(os.environ):
        if setting.startswith("ANSIBLE_") and setting not in _WITHOUT_EFFECT:
            raise NotPlain(f"is read as {setting} of the environment says")
    for value in _DEFAULT_CONFIGS:
        if (config := _resolve_setting(value)).exists():
            raise NotPlain(f"is read as {config} says")
    for value in _PLUGIN_FOLDERS:
        if (folder := _resolve_setting(value)).is_dir() and os.listdir(folder):
            raise NotPlain(f"is read with the plugins in {folder}")


def _require_ansible(path: Path, reason: NotPlain) -> None:
    """Raise UsageError, with the part that needs Ansible, unless it is installed."""
    try:
        found = metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        found = ""
    numbers = tuple(map(int, re.findall(r"\d+", found)[:2]))
    if numbers >= _ANSIBLE_MIN:
        return
    least = ".".join(map(str, _ANSIBLE_MIN))
    lack = f"{_PACKAGE} {found} is too old" if found else f"{_PACKAGE} is not installed"
    where = f"line {reason.line} of {path}" if reason.line else f"{path}"
    raise UsageError(
        f"{where} {reason.what}: without Ansible dbcheck reads only plain YAML, and"
        f" {lack}",
        id=ErrorId.ANSIBLE_NOT_INSTALLED,
        hint=f"Correct it; or install {_PACKAGE} {least} or newer: pip install"
        ' "dbcheck[ansible]", or in a checkout pip install -r constraints/ansible.txt.',
    )


def _read_by_ansible(path: Path) -> Listing:
    """Return what ansible-inventory lists."""
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


def parse_listing(path: Path, output: bytes) -> Listing:
    """Parse the output of ansible-inventory, with the hosts that have no variable."""
    try:
        output_values = json.loads(output)
        variables_by_host = convert(output_values.pop("_meta"), _Meta).hostvars
        groups = convert(output_values, dict[str, Group])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _refused_inventory_error(
            path, ["its output is not an inventory"]
        ) from None
    return make_listing(variables_by_host, groups)


def _find_folder(path: Path) -> Path:
    """Return the folder of Ansible's variable files for the inventory *path*."""
    resolved = path.resolve()
    return resolved if resolved.is_dir() else resolved.parent


def _list_files(path: Path) -> Iterator[Path]:
    """Yield the files and folders that Ansible reads, or runs, for *path*."""
    for place in (path, *(_find_folder(path) / name for name in _VARIABLE_FOLDERS)):
        yield place
        seen = set()
        for folder, folders, files in os.walk(place, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link leads back
                folders.clear()
                continue
            seen.add(real)
            yield from (Path(folder, name) for name in (*folders, *files))


def _require_file(path: Path, *, is_read: bool) -> None:
    """Raise UsageError for what Ansible would wait for, or read without end.

    A file that is missing, or that this user may not read, is left to Ansible.

    is_read: Ansible certainly reads the whole file, so it must not be large.
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
    """Return True if Ansible reads *path* as a file in group_vars or host_vars."""
    is_beside = not set(path.parts).isdisjoint(_VARIABLE_FOLDERS)
    return is_beside and path.suffix in ("", *_YAML_SUFFIXES)


def _require_no_program(path: Path) -> None:
    """Raise UsageError if a file with the name of a YAML file is a program.

    Ansible would run it in a folder of inventories, or if its text, read as YAML, names
    the plugin for programs (ansible.builtin.script, ansible.builtin.auto).
    """
    if (
        path.suffix not in _YAML_SUFFIXES
        or not path.is_file()
        or not os.access(path, os.X_OK)
    ):
        return
    try:
        with plain.open_regular(path) as file:
            if not file.read(4).startswith(_PROGRAM_STARTS):
                return
    except OSError as error:
        raise _unreadable_error(path, error) from None
    raise UsageError(
        f"{path} is a program, with the name of a YAML file",
        id=ErrorId.ANSIBLE_INVENTORY_FAILED,
        hint="Rename it if it is to be run; else run: chmod a-x"
        f" {shlex.quote(str(path))}",
    )


def _make_environment(path: Path) -> dict[str, str]:
    """Return an environment in which Ansible reads only what it should.

    A configuration in the working directory counts if ANSIBLE_CONFIG names it.  It is
    not known yet which variables the inventory names as secrets, so few are passed on.
    """
    env = processes.make_environment()
    if path.suffix in _YAML_SUFFIXES:
        env = {
            k: v
            for k, v in env.items()
            if k in _NEEDED_VARIABLES or k.startswith("ANSIBLE_")
        }
        env["ANSIBLE_INVENTORY_ENABLED"] = "yaml,auto"  # not script, which would run it
    # Ansible makes a folder of its own there, and removes it even if we are killed.
    env |= {**_SETTINGS, "ANSIBLE_LOCAL_TEMP": tempfile.gettempdir()}
    # Relative to the folder that dbcheck was started in, as Ansible would read them.
    for name in (_CONFIG_VARIABLE, _VAULT_VARIABLE):
        if value := env.get(name):
            env[name] = str(_resolve_setting(value))
            _require_sound_settings(Path(env[name]))
    # ANSIBLE_CONFIG may name the folder of the file.
    if config := env.get(_CONFIG_VARIABLE):
        _require_sound_settings(Path(config, "ansible.cfg"))
    for value in _DEFAULT_CONFIGS:
        _require_sound_settings(_resolve_setting(value))
    # Relative to /, where Ansible starts.
    for value in _parse_vault_files(env.get(_VAULT_LIST_VARIABLE, "")):
        _require_sound_settings(
            Path("/", os.path.expanduser(os.path.expandvars(value)))
        )
    return env


def _require_sound_settings(path: Path) -> None:
    """Raise UsageError for a file of settings that Ansible must not read."""
    require_trusted(path)
    _require_file(path, is_read=True)


def _parse_vault_files(text: str) -> Iterator[str]:
    """Yield the files in a list of vault ids, each FILE, LABEL@FILE or LABEL@prompt."""
    for vault_id in text.split(","):
        label, at, rest = vault_id.strip().partition("@")
        source = rest if at else label
        if source and source not in _PROMPTS:
            yield source


def _resolve_setting(value: str) -> Path:
    """Return the path that Ansible makes of a setting, from where we were started."""
    return Path(os.path.abspath(os.path.expanduser(os.path.expandvars(value))))


def _parse_messages(stderr: str) -> list[str]:
    """Return Ansible's warnings, with file and line if it names them.

    The lines of the file that it quotes are left out: they may hold a secret.
    """
    origin_of_message: dict[str, str] = {}
    for block in _MESSAGE_MARK.split(stderr)[1:]:
        message = _PLUGIN_PREFIX.sub("", block.partition("\n")[0]).partition(", got: ")[
            0
        ]
        message = _QUOTED_LINE.sub("", message)
        if message.startswith(_HARMLESS):
            continue
        origin = _ORIGIN.search(block)
        origin_of_message[message] = (
            f" ({origin[1]})" if origin else origin_of_message.get(message, "")
        )
    causes = [m for m in origin_of_message if not m.startswith(_NOT_THE_CAUSE)] or list(
        origin_of_message
    )
    return [f"{message.rstrip('.')}{origin_of_message[message]}" for message in causes]


def _find_faults(path: Path) -> Iterator[str]:
    """Yield each line of the files of an inventory that no YAML can have.

    Ansible 2.19 names neither file nor line for files in group_vars and host_vars.
    """
    for file in _list_files(path):
        if file == path or _is_of_variables(file):
            with contextlib.suppress(OSError):
                content = plain.read_regular(file)
                text = content.decode("utf-8", "surrogateescape")
                if found := _NOT_OF_TEXT.search(text):
                    line = text.count("\n", 0, found.start()) + 1
                    yield f"line {line} of {file} is not UTF-8 text"
                elif _is_of_variables(file) and (line := _find_invalid_line(text)):
                    yield f"line {line} of {file} is not YAML"


def _find_invalid_line(text: str) -> int:
    """Return the number of a line that is not YAML, 0 if there is none."""
    try:
        for _ in yaml.parse(text):
            pass
    except yaml.MarkedYAMLError as error:
        return 1 + int((error.problem_mark or error.context_mark).line)
    return 0


def _unreadable_error(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be read: {error.strerror}",
        id=ErrorId.ANSIBLE_INVENTORY_FAILED,
        hint="The user who runs dbcheck must be able to read the inventory.",
    )


def _refused_inventory_error(path: Path, messages: list[str]) -> UsageError:
    text = "; ".join((*_find_faults(path), *messages))[:_MESSAGE_MAX]
    id = ErrorId.ANSIBLE_INVENTORY_FAILED
    hint = (
        f"For all messages, run: ansible-inventory -i {shlex.quote(str(path))} --list"
    )
    if "decrypt" in text:
        id = ErrorId.VAULT_PASSWORD_MISSING
        hint = f"Set {_VAULT_VARIABLE} to the file with the vault's password."
    return UsageError(f"ansible-inventory cannot read {path}: {text}", id=id, hint=hint)
