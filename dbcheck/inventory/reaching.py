"""Reads the variables by which Ansible reaches a target's host, as ansible_host.

One setting may have several names.  The last that is given counts, in the order of
`ansible-doc -t connection ssh` (ansible-core 2.19): an old one, such as
ansible_ssh_host, comes before the newer ansible_host, whatever group sets it.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.config.validated import Text
from dbcheck.inventory.fields import Fields
from dbcheck.inventory.sshargs import proxy_of
from dbcheck.remote.address import AS_SSH, USER_CONFIG, Proxy, SshOptions
from dbcheck.remote.way import LOCAL

_PARAMIKO = ("paramiko", "paramiko_ssh")
_SSH = ("ssh", "smart")
_COLLECTIONS = ("ansible.builtin.", "ansible.legacy.")
_PROGRAM, _COMMAND = "ansible_ssh_executable", "ansible_paramiko_proxy_command"
_KEYS = ("ansible_private_key", "ansible_ssh_private_key")
_Port = Annotated[int, Meta(ge=1, le=65_535)]


def host_of(fields: Fields) -> tuple[str, SshOptions]:
    """Return the URL of the target's host, see remote.way, and how to log in there.

    Raise UsageError for what Ansible reaches in another way than by SSH.
    """
    kind = _connection(fields)
    if kind == "local":
        return LOCAL, AS_SSH
    by_paramiko = kind in _PARAMIKO
    host = fields.value(_given(fields, "host", by_paramiko), Text, fields.host)
    user = fields.value(fields.given("ansible_user", "ansible_ssh_user"), str, "")
    port = fields.value(_given(fields, "port", by_paramiko), _Port, None)
    before, _, host = host.rpartition("@")  # ssh takes USER@HOST, too
    name = quote(user or before, safe=":@\\")
    url = f"ssh://{name}@" if name else "ssh://"
    url += f"[{host}]" if ":" in host else host
    url += f":{port}" if port else ""
    proxy, config = _by_paramiko(fields) if by_paramiko else _by_ssh(fields)
    identity = _identity(fields, by_paramiko)
    return url, SshOptions(identity_file=identity, config_file=config, proxy=proxy)


def _connection(fields: Fields) -> str:
    """Return the name of the connection plugin; raise UsageError for another one."""
    kind: str = fields.value("ansible_connection", str, "ssh")
    for collection in _COLLECTIONS:
        kind = kind.removeprefix(collection)
    if kind not in (*_SSH, *_PARAMIKO, "local"):
        raise fields.error(
            "ansible_connection",
            f"is {kind!r}, and dbcheck reaches hosts by ssh alone",
            id=ErrorId.VALUE_INVALID,
            hint="Give ssh, or local if dbcheck runs on the target's host. With"
            " dbcheck_ask_host: false, dbcheck does without that host.",
        )
    return kind


def _given(fields: Fields, setting: str, by_paramiko: bool) -> str:
    """Return the name that counts of a setting's names."""
    names = (f"ansible_{setting}", f"ansible_ssh_{setting}")
    more = (f"ansible_paramiko_{setting}",) if by_paramiko else ()
    return fields.given(*names, *more)


def _identity(fields: Fields, by_paramiko: bool) -> Path | None:
    """Return the file of the private key, None if SSH's own configuration names it."""
    for name in () if by_paramiko else _KEYS:
        if fields.value(name, Any, None):
            raise fields.error(
                name,
                "is not read: dbcheck takes a private key from a file",
                id=ErrorId.SECRET_IN_CLEAR_TEXT,
                hint="Store it in a file that only you may read, and name that in"
                " ansible_ssh_private_key_file.",
            )
    name = _given(fields, "private_key_file", by_paramiko)
    is_named = fields.value(name, str, "") != ""
    found: Path | None = fields.value(name, Path, None) if is_named else None
    return found


def _by_ssh(fields: Fields) -> tuple[Proxy | None, Path]:
    """Return the way to a host as ssh(1) takes it, see proxy_of()."""
    program = fields.value(_PROGRAM, str, "")
    if PurePath(program).name not in ("", "ssh"):
        raise fields.error(
            _PROGRAM,
            "names another program than ssh, which dbcheck does not run",
            id=ErrorId.SSH_ARGUMENT_NOT_SUPPORTED,
            hint=f"Write how it reaches the host into {USER_CONFIG}, as a ProxyCommand,"
            f" and set {_PROGRAM} to ssh.",
        )
    return proxy_of(fields)


def _by_paramiko(fields: Fields) -> tuple[Proxy | None, Path]:
    """Return the way to a host: Ansible's paramiko reads no arguments of ssh."""
    command = fields.value(_COMMAND, str, "")
    return (Proxy(command=command) if command else None), USER_CONFIG
