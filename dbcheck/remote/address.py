"""Addresses and options of hosts over SSH: plain values that import no SSH."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError

SCHEME = "ssh"
USER_CONFIG = Path("~/.ssh/config")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A way to a host: ProxyCommand or ProxyJump of ssh_config(5), which may be "none".

    command: the ProxyCommand, which may hold a password.  jump: the ProxyJump.
    """

    command: str = field(default="", repr=False)
    jump: str = ""

    @property
    def jump_is_none(self) -> bool:
        """True if ProxyJump is "none", so that a ProxyCommand after it counts."""
        return self.jump.lower() == "none"


@dataclass(frozen=True, slots=True)
class SshOptions:
    """Options for reaching and trusting hosts that take the place of ssh_config(5).

    accept_new_host_key: store the key of a host that is not known yet; a key that
                         has changed is always refused.  None means False, for a
                         user who has no option for it, so that no error names one.
    identity_file:       the only key to offer; None for the keys that ssh(1) offers.
    known_hosts:         the only file of known hosts, to which new ones are added;
                         None for the files that ssh(1) uses.
    config_file:         the user's configuration; it need not exist.
    proxy:               the way to the host; None if the configuration decides.
    """

    accept_new_host_key: bool | None = None
    identity_file: Path | None = None
    known_hosts: Path | None = None
    config_file: Path = USER_CONFIG
    proxy: Proxy | None = None
    connect_timeout_s: float = 15.0


AS_SSH = SshOptions()  # reach and trust hosts as the user's own ssh does


# What the name of a host or a user must not hold: ssh_config(5) hands both to a shell,
# as %h and %r of ProxyCommand and "Match exec".  OpenSSH has this rule since 9.6:
# ssh_valid_hostname() and ssh_valid_ruser() in readconf.c of 10.5.
_FORBIDDEN_IN_HOST = re.compile(r"^-|['`\"$\\;&<>|(){},\s\x00-\x1f\x7f]")
_FORBIDDEN_IN_USER = re.compile(r"^-|['`\";&<>|(){}\x00-\x1f\x7f]|\s-|\\$")


@dataclass(frozen=True, slots=True)
class Address:
    """The host to connect to, as the user gave it.

    user, port: None if the configuration decides.
    """

    host: str
    user: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for characters that a shell obeys; it repeats no user."""
        if found := _FORBIDDEN_IN_HOST.search(self.host):
            what = f"the name of the host {self.host!r}"
        elif found := _FORBIDDEN_IN_USER.search(self.user or ""):
            what = f"the name of the user for the host {self.host!r}"
        else:
            return
        how = "begins with" if not found.start() else "holds"
        raise UsageError(
            f"{what} {how} {found[0]!r}, which ssh refuses as well",
            id=ErrorId.HOST_ADDRESS_INVALID,
            hint="Correct the name where it stands: in the command, the inventory or"
            " ssh_config.",
        )

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse "[user@]host[:port]"; raise UsageError.

        The message repeats nothing that may be a password.
        """
        user, _, place = text.rpartition("@")
        if ":" in user:
            raise UsageError(
                "the address of a host must not contain a password",
                id=ErrorId.URL_HOLDS_PASSWORD,
                hint="Write it like user@host:port, and log in with a key; `ssh-add`"
                " unlocks one.",
            )
        host, colon, port = place.rpartition(":")
        if not colon or place.endswith("]"):
            host, port = place, ""
        if not host or (port and not is_port(port)):
            raise UsageError(
                f"not a host to connect to: {place!r}",
                id=ErrorId.HOST_ADDRESS_INVALID,
                hint="Write it like user@host:port.",
            )
        return cls(host.strip("[]"), user or None, int(port) if port else None)


def is_port(text: str) -> bool:
    """Return True if *text* is the number of a port."""
    return text.isascii() and text.isdigit() and 0 < int(text[:9]) < 65_536


def parse_ssh_url(url: str, what: str, hint: str) -> tuple[Address, str]:
    """Parse "ssh://[user@]host[:port][/path]" into address and unquoted path.

    what: names in errors what the URL leads to.  hint: tells how to write the URL.
    Raise UsageError for any other URL; the message repeats nothing that may be a
    password.
    """
    try:
        if not url.isprintable():  # urlsplit() would remove a tab and the end of a line
            raise ValueError
        parts = urlsplit(url)
        _ = parts.port  # parsed only when asked for
    except ValueError:  # its text may hold a part of a password
        raise UsageError(
            f"the URL of {what} cannot be read",
            id=ErrorId.HOST_ADDRESS_INVALID,
            hint=hint,
        ) from None
    if parts.password is not None:
        raise UsageError(
            f"the URL of {what} must hold no password",
            id=ErrorId.URL_HOLDS_PASSWORD,
            hint="Log in with a key; `ssh-add` unlocks one.",
        )
    if parts.scheme != SCHEME:
        raise UsageError(
            f"not {what}: {strip_login(url)!r}",
            id=ErrorId.HOST_ADDRESS_INVALID,
            hint=hint,
        )
    if not parts.hostname:
        raise UsageError(
            f"no host in {strip_login(url)!r}",
            id=ErrorId.HOST_ADDRESS_INVALID,
            hint=hint,
        )
    if parts.query or parts.fragment:
        raise UsageError(
            f"more than host and path for the host {parts.hostname!r}",
            id=ErrorId.HOST_ADDRESS_INVALID,
            hint=hint,
        )
    # parts.hostname is in lower case, and ssh_config(5) tells cases apart.
    user, _, place = parts.netloc.rpartition("@")
    address = Address.parse(place)
    return (
        Address(address.host, unquote(user) or None, address.port),
        unquote(parts.path),
    )


def strip_login(url: str) -> str:
    """Return *url* without a login before its host, and options behind its path."""
    return re.split("[?#]", url.rpartition("@")[2])[0]
