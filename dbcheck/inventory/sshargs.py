"""Arguments for ssh(1) in an inventory: what of them leads to a host.

They are read as ssh.c and readconf.c of OpenSSH 9.2 to 10.2 do, by the same getopt(3).
How hosts are trusted, time limits and shared connections lead nowhere else; dbcheck has
its own ways there, so these arguments are left out.
"""

from __future__ import annotations

import getopt
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.inventory.fields import Fields
from dbcheck.remote.address import USER_CONFIG, Proxy
from dbcheck.remote.sshfiles import BEFORE_VALUE, divide

# In the order in which Ansible gives them to ssh, which takes the first of two values.
_VARIABLES = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_OPTIONS = "1246ab:c:e:fgi:kl:m:no:p:qstvxAB:CD:E:F:GI:J:KL:MNO:P:Q:R:S:TVw:W:XYy"
_KEYWORDS = {  # an option -> its keyword in ssh_config(5)
    "-J": "ProxyJump",
    "-P": "Tag",
    "-i": "IdentityFile",
    "-l": "User",
    "-p": "Port",
}
_INSTEAD = {  # a keyword -> where dbcheck takes its value from
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


def proxy_of(fields: Fields) -> tuple[Proxy | None, Path]:
    """Return the way to the host, None if the configuration says it; and that file.

    Raise UsageError, which repeats no argument, for any that names another host.
    """
    proxy, config = None, USER_CONFIG
    for name in _VARIABLES:
        for keyword, value in _settings(fields, name):
            if keyword == "-F":
                config = _file(fields, name, value)
            elif hint := _INSTEAD.get(keyword.lower()):
                what = f"sets {keyword}, which dbcheck does not read there"
                raise _invalid(fields, name, what, hint)
            elif keyword.lower() == "proxyjump":
                proxy = proxy or Proxy(jump=value)
            elif keyword.lower() == "proxycommand" and (
                proxy is None or proxy.jump_is_none
            ):
                proxy = Proxy(command=value)
    return proxy, config


def _file(fields: Fields, name: str, value: str) -> Path:
    """Return the file that -F names; ssh refuses one that is not there."""
    path = "/dev/null" if value.lower() == "none" else os.path.abspath(value)
    if not os.path.exists(path):
        raise _invalid(
            fields,
            name,
            "names a configuration by -F that does not exist",
            "Give its whole path; a ~ is not replaced there.",
        )
    return Path(path)


def _settings(fields: Fields, name: str) -> Iterator[tuple[str, str]]:
    """Yield each keyword of ssh_config(5) and its value in one variable; also "-F"."""
    try:
        options, rest = getopt.gnu_getopt(_words(fields, name), _OPTIONS)
    except getopt.GetoptError:
        raise _invalid(fields, name, "has an option that ssh does not have") from None
    if rest:
        raise _invalid(fields, name, "holds a word that is no option of ssh")
    for option, value in options:
        if option in _KEYWORDS or option == "-F":
            yield _KEYWORDS.get(option, option), value
        elif option == "-o":
            keyword, setting = divide(value)
            yield keyword, setting.lstrip(BEFORE_VALUE)


def _words(fields: Fields, name: str) -> list[str]:
    """Return the arguments in one variable, split as Ansible splits them."""
    text = fields.value(name, Any, "")
    if not isinstance(text, str) or "\0" in text:
        raise _invalid(fields, name, "is not a text")
    try:
        text.encode()
        return [word.strip() for word in shlex.split(text) if word.strip()]
    except UnicodeEncodeError:
        raise _invalid(fields, name, "is not a text") from None
    except ValueError:
        raise _invalid(
            fields, name, "has a quotation mark without a second one"
        ) from None


def _invalid(
    fields: Fields, name: str, what: str, hint: str = _AS_ON_COMMAND_LINE
) -> UsageError:
    return fields.error(name, what, id=ErrorId.SSH_ARGUMENT_NOT_SUPPORTED, hint=hint)
