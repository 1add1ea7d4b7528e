"""Reads how Ansible reaches a target's host: its variables, and arguments for ssh(1).

The arguments are read as ssh.c and readconf.c of OpenSSH 9.2 to 10.2 do, by the same
getopt(3).  Arguments about trust in hosts, time limits and shared connections do not
change the host that is reached.  They are left out, as dbcheck has its own rules there.

One setting may have several variables.  The last one that is defined counts, in the
order of `ansible-doc -t connection ssh` (ansible-core 2.19), whatever group defines it.
"""

from __future__ import annotations

import getopt
import os
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.validated import Text
from dbcheck.inventory.fields import Fields
from dbcheck.remote.address import AS_SSH, USER_CONFIG, Proxy, SshOptions
from dbcheck.remote.sshfiles import BEFORE_VALUE, split_keyword
from dbcheck.remote.way import LOCAL

# In the order in which Ansible gives them to ssh, which takes the first of two values.
_VARIABLES_OF_ARGUMENTS = (
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)
# The options of ssh(1), for getopt.
_OPTIONS = "1246ab:c:e:fgi:kl:m:no:p:qstvxAB:CD:E:F:GI:J:KL:MNO:P:Q:R:S:TVw:W:XYy"
_KEYWORD_OF_OPTION = {  # an option -> its keyword in ssh_config(5)
    "-J": "ProxyJump",
    "-P": "Tag",
    "-i": "IdentityFile",
    "-l": "User",
    "-p": "Port",
}
_HINT_OF_KEYWORD = {  # a keyword that is refused -> where dbcheck takes its value from
    "hostname": "Give it as ansible_host.",
    "port": "Give it as ansible_port.",
    "user": "Give it as ansible_user.",
    "identityfile": "Give it as ansible_ssh_private_key_file.",
    **dict.fromkeys(
        ("canonicaldomains", "canonicalizehostname", "include", "tag"),
        f"Write it into {USER_CONFIG}, or into a file that -F names.",
    ),
}
_AS_ON_COMMAND_LINE = (
    "Write it as on ssh's command line, and without a host, like -J user@gateway or"
    " -o ProxyCommand='PROGRAM %h %p'."
)


def read_proxy(fields: Fields) -> tuple[Proxy | None, Path]:
    """Return the proxy, None if SSH's configuration decides; and the file of that.

    Raise UsageError, which repeats no argument, for one that dbcheck cannot follow.
    """
    proxy, config = None, USER_CONFIG
    for name in _VARIABLES_OF_ARGUMENTS:
        for keyword, value in _parse_settings(fields, name):
            if keyword == "-F":
                config = _find_config_file(fields, name, value)
            elif hint := _HINT_OF_KEYWORD.get(keyword.lower()):
                what = f"sets {keyword}, which dbcheck does not read there"
                raise _invalid_variable_error(fields, name, what, hint)
            elif keyword.lower() == "proxyjump":
                proxy = proxy or Proxy(jump=value)
            elif keyword.lower() == "proxycommand" and (
                proxy is None or proxy.jump_is_none
            ):
                proxy = Proxy(command=value)
    return proxy, config


def _find_config_file(fields: Fields, name: str, value: str) -> Path:
    """Return the file that -F names; raise UsageError if it does not exist, as ssh."""
    path = "/dev/null" if value.lower() == "none" else os.path.abspath(value)
    if not os.path.exists(path):
        raise _invalid_variable_error(
            fields,
            name,
            "names a configuration by -F that does not exist",
            "Give its whole path; a ~ is not replaced there.",
        )
    return Path(path)


def _parse_settings(fields: Fields, name: str) -> Iterator[tuple[str, str]]:
    """Yield each keyword of ssh_config(5) in the variable *name*, with its value.

    The keyword of the option -F is "-F".
    """
    try:
        options, rest = getopt.gnu_getopt(_split_words(fields, name), _OPTIONS)
    except getopt.GetoptError:
        raise _invalid_variable_error(
            fields, name, "has an option that ssh does not have"
        ) from None
    if rest:
        raise _invalid_variable_error(
            fields, name, "holds a word that is no option of ssh"
        )
    for option, value in options:
        if option in _KEYWORD_OF_OPTION or option == "-F":
            yield _KEYWORD_OF_OPTION.get(option, option), value
        elif option == "-o":
            keyword, setting = split_keyword(value)
            yield keyword, setting.lstrip(BEFORE_VALUE)


def _split_words(fields: Fields, name: str) -> list[str]:
    """Return the arguments in the variable *name*, split as Ansible splits them."""
    text = fields.value(name, Any, "")
    if not isinstance(text, str) or "\0" in text:
        raise _invalid_variable_error(fields, name, "is not a text")
    try:
        text.encode()
        return [word.strip() for word in shlex.split(text) if word.strip()]
    except UnicodeEncodeError:
        raise _invalid_variable_error(fields, name, "is not a text") from None
    except ValueError:
        raise _invalid_variable_error(
            fields, name, "has a quotation mark without a second one"
        ) from None


def _invalid_variable_error(
    fields: Fields, name: str, what: str, hint: str = _AS_ON_COMMAND_LINE
) -> UsageError:
    return fields.error(name, what, id=ErrorId.SSH_ARGUMENT_NOT_SUPPORTED, hint=hint)


_PARAMIKO_CONNECTIONS = ("paramiko", "paramiko_ssh")
_SSH_CONNECTIONS = ("ssh", "smart")
_COLLECTIONS = ("ansible.builtin.", "ansible.legacy.")
_PROGRAM, _COMMAND = "ansible_ssh_executable", "ansible_paramiko_proxy_command"
_KEYS_AS_TEXT = ("ansible_private_key", "ansible_ssh_private_key")
_Port = Annotated[int, Meta(ge=1, le=65_535)]


def read_host(fields: Fields) -> tuple[str, SshOptions]:
    """Return the URL of the target's host, see remote.way, and how to log in there.

    Raise UsageError for what Ansible reaches in another way than by SSH.
    """
    kind = _read_connection(fields)
    if kind == "local":
        return LOCAL, AS_SSH
    by_paramiko = kind in _PARAMIKO_CONNECTIONS
    host = fields.value(_choose_name(fields, "host", by_paramiko), Text, fields.host)
    user = fields.value(fields.choose_name("ansible_user", "ansible_ssh_user"), str, "")
    port = fields.value(_choose_name(fields, "port", by_paramiko), _Port, None)
    user_of_host, _, host = host.rpartition("@")  # ssh takes USER@HOST, too
    login = quote(user or user_of_host, safe=":@\\")
    url = f"ssh://{login}@" if login else "ssh://"
    url += f"[{host}]" if ":" in host else host
    url += f":{port}" if port else ""
    proxy, config = (
        _read_paramiko_proxy(fields) if by_paramiko else _read_ssh_proxy(fields)
    )
    identity = _read_identity(fields, by_paramiko)
    return url, SshOptions(identity_file=identity, config_file=config, proxy=proxy)


def _read_connection(fields: Fields) -> str:
    """Return the name of the connection plugin; raise UsageError for another one."""
    kind: str = fields.value("ansible_connection", str, "ssh")
    for collection in _COLLECTIONS:
        kind = kind.removeprefix(collection)
    if kind not in (*_SSH_CONNECTIONS, *_PARAMIKO_CONNECTIONS, "local"):
        raise fields.error(
            "ansible_connection",
            f"is {kind!r}, and dbcheck reaches hosts by ssh alone",
            id=ErrorId.VALUE_INVALID,
            hint="Give ssh, or local if dbcheck runs on the target's host. With"
            " dbcheck_ask_host: false, dbcheck does without that host.",
        )
    return kind


def _choose_name(fields: Fields, setting: str, by_paramiko: bool) -> str:
    """Return the variable that counts, of those that a setting of a connection has."""
    names = (f"ansible_{setting}", f"ansible_ssh_{setting}")
    paramiko_names = (f"ansible_paramiko_{setting}",) if by_paramiko else ()
    return fields.choose_name(*names, *paramiko_names)


def _read_identity(fields: Fields, by_paramiko: bool) -> Path | None:
    """Return the file of the private key, None if SSH's own configuration names it."""
    for name in () if by_paramiko else _KEYS_AS_TEXT:
        if fields.value(name, Any, None):
            raise fields.error(
                name,
                "is not read: dbcheck takes a private key from a file",
                id=ErrorId.SECRET_IN_CLEAR_TEXT,
                hint="Store it in a file that only you may read, and name that in"
                " ansible_ssh_private_key_file.",
            )
    name = _choose_name(fields, "private_key_file", by_paramiko)
    is_named = fields.value(name, str, "") != ""
    key_file: Path | None = fields.value(name, Path, None) if is_named else None
    return key_file


def _read_ssh_proxy(fields: Fields) -> tuple[Proxy | None, Path]:
    """Return what read_proxy() returns; raise UsageError for another program."""
    program = fields.value(_PROGRAM, str, "")
    if PurePath(program).name not in ("", "ssh"):
        raise fields.error(
            _PROGRAM,
            "names another program than ssh, which dbcheck does not run",
            id=ErrorId.SSH_ARGUMENT_NOT_SUPPORTED,
            hint=f"Write how it reaches the host into {USER_CONFIG}, as a ProxyCommand,"
            f" and set {_PROGRAM} to ssh.",
        )
    return read_proxy(fields)


def _read_paramiko_proxy(fields: Fields) -> tuple[Proxy | None, Path]:
    """Return the proxy and the configuration for Ansible's connection by paramiko.

    That connection reads no arguments of ssh, only a command.
    """
    command = fields.value(_COMMAND, str, "")
    return (Proxy(command=command) if command else None), USER_CONFIG
