"""The settings for a host in the user's OpenSSH configuration (ssh_config(5))."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import os
import pwd
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded
from dbcheck.remote.address import USER_CONFIG, Address, Proxy, is_port
from dbcheck.remote.sshfiles import (
    CORRECT,
    SYSTEM_CONFIG,
    ConfigError,
    find_include_folder,
    read_lines,
    require_unchangeable_by_others,
)
from dbcheck.remote.sshlogin import Keys
from dbcheck.remote.sshread import YES, OpenSsh, Raw, Reader, ask_ssh, find_ssh, is_none

_USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
_GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
_AGENT = "SSH_AUTH_SOCK"
_TOKENS = frozenset("%CLdhijklnpru")  # ssh_config(5), TOKENS, of OpenSSH 10.0
_TOKEN = re.compile(r"%(.?)|\$\{([^}]*)\}", re.DOTALL)

Tokens = Mapping[str, str]  # by their letter, as "h"


@dataclass(frozen=True, slots=True)
class Settings:
    """The address of a host, the name of its key, and the means to log in there.

    jumps:           the hosts to go through, one after the other.
    proxy_command:   the command whose input and output are the connection, None for a
                     connection by TCP.
    alias:           the name of the host in lists of keys, None for *host*.
    known_hosts:     the lists of keys, the user's first.
    revoked_keys:    lists of keys that are refused (ssh_config(5), RevokedHostKeys).
    keys:            the keys of the user to log in with.
    """

    host: str
    port: int
    user: str
    jumps: tuple[Address, ...] = ()
    proxy_command: str | None = None
    alias: str | None = None
    known_hosts: tuple[Path, ...] = ()
    revoked_keys: tuple[Path, ...] = ()
    keys: Keys = Keys(())


def read_settings(
    address: Address,
    config_file: Path = USER_CONFIG,
    limit_s: float = 15.0,
    proxy: Proxy | None = None,
) -> Settings:
    """Return the settings for *address*; raise UsageError if they cannot be had.

    proxy: the way to the host, None if the configuration decides.  If ssh(1) is
    installed it is asked, for *limit_s* seconds at most, and the system's configuration
    counts after the user's own; another *config_file* counts alone.  Without ssh(1)
    only *config_file* is read.  A file that does not exist sets nothing.
    """
    if os.path.expanduser("~") == "~":
        raise UsageError(
            "your user has no home, where the SSH configuration is looked for",
            id=ErrorId.SSH_CONFIG_INVALID,
            hint="Set the environment variable HOME to a folder of your own.",
        )
    path = config_file.expanduser()
    ssh = find_ssh()
    given = {} if proxy is None else _convert_proxy(proxy)
    try:
        if ssh is None:
            return _parse_settings(
                address, _read_files(address, path) | given, tokens_expanded=False
            )
        raw = _ask_ssh(ssh, address, path, limit_s)
        return _parse_settings(address, raw | given, tokens_expanded=ssh.expands_files)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot use the SSH configuration: {_format_error(path, error)}",
            id=ErrorId.SSH_CONFIG_INVALID,
            hint=error.hint if isinstance(error, ConfigError) else CORRECT,
        ) from error


def _convert_proxy(proxy: Proxy) -> Raw:
    """Return *proxy* as values of a configuration; raise UsageError for a token."""
    for token in _TOKEN.finditer(f"{proxy.command}\n{proxy.jump}"):
        if token[2] is None and token[1] not in _TOKENS:
            raise UsageError(
                f"{token[0]} has no meaning in the inventory's ProxyCommand or"
                " ProxyJump",
                id=ErrorId.SSH_ARGUMENT_NOT_SUPPORTED,
                hint="Write %% for a %. %h is the host, %n its name as given, %p the"
                " port and %r the user.",
            )
    if proxy.jump_is_none:
        return {"proxyjump": ["none"]}
    return {
        "proxycommand": [proxy.command or "none"],
        "proxyjump": [proxy.jump or "none"],
    }


def _format_error(path: Path, error: Exception) -> str:
    """Return the text of *error*, beginning with the file; *path* if it names none."""
    text = str(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return text if text.startswith("/") else f"{path}: {text}"


def _ask_ssh(ssh: OpenSsh, address: Address, path: Path, limit_s: float) -> Raw:
    is_users_own = path == USER_CONFIG.expanduser()
    for file in (path, *([SYSTEM_CONFIG] if is_users_own else [])):
        if file.exists():
            require_unchangeable_by_others(file, find_include_folder(file))
    alone = path if path.exists() else Path(os.devnull)
    return ask_ssh(ssh, address, None if is_users_own else alone, limit_s)


def _read_files(address: Address, path: Path) -> Raw:
    reader = Reader(address, _find_local_user())
    with contextlib.suppress(FileNotFoundError):
        reader.read(read_lines(path), find_include_folder(path))
    keys = {"identityfile": [f"~/.ssh/{name}" for name in _KEYS]}
    files = {
        "userknownhostsfile": _USER_KNOWN_HOSTS.split(),
        "globalknownhostsfile": _GLOBAL_KNOWN_HOSTS.split(),
    }
    return keys | files | reader.result()


def _find_local_user() -> str:
    """Return the name of this user, "" if there is none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pass
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no environment variable names the user, either
        return ""


def _parse_settings(address: Address, raw: Raw, *, tokens_expanded: bool) -> Settings:
    """Return the settings that *raw* has.

    tokens_expanded: ssh(1) expanded the tokens in the agent's name and in the names of
    the user's lists of keys.
    """

    def value(keyword: str) -> str | None:
        first = raw.get(keyword, ["none"])[0]
        return None if is_none(first) else first

    def files(keyword: str, tokens: Tokens | None) -> tuple[Path, ...]:
        names = dict.fromkeys(raw.get(keyword, []))
        return tuple(
            _resolve_file(keyword, name, tokens) for name in names if not is_none(name)
        )

    port = raw["port"][0]
    if not is_port(port):
        raise ConfigError(f"{port!r} is not a port")
    jumps, command = value("proxyjump"), value("proxycommand")
    if value("proxyusefdpass") in YES and not jumps:
        raise ConfigError(
            "dbcheck does not support ProxyUseFdpass",
            "Write a ProxyCommand without it, which passes the data on, like nc %h %p.",
        )
    if jumps:
        command = None
    alias = raw.get("hostkeyalias", [""])[0]  # here "none" is a name like any other
    tokens = _make_tokens(address, raw, jumps)
    tokens_left = None if tokens_expanded else tokens
    return Settings(
        host=raw["hostname"][0],
        port=int(port),
        user=raw["user"][0],
        jumps=_parse_jumps(jumps, tokens) if jumps else (),
        proxy_command=_expand("proxycommand", command, tokens) if command else None,
        alias=alias.lower() if alias else None,
        known_hosts=(
            *files("userknownhostsfile", tokens_left),
            *files("globalknownhostsfile", None),
        ),
        revoked_keys=files("revokedhostkeys", None),
        keys=Keys(
            files=files("identityfile", tokens),
            certificates=files("certificatefile", tokens),
            agent=_find_agent_socket(
                raw.get("identityagent", [_AGENT])[0], tokens_left
            ),
            files_only=(value("identitiesonly") or "").lower() in YES,
        ),
    )


def _parse_jumps(listed: str, tokens: Tokens) -> tuple[Address, ...]:
    # The text is split before tokens are expanded: a user's name may hold a comma.
    return tuple(
        _parse_jump(_expand("proxyjump", jump, tokens)) for jump in listed.split(",")
    )


def _parse_jump(text: str) -> Address:
    return Address.parse(text.strip().removeprefix("ssh://"))


def _find_agent_socket(agent: str, tokens: Tokens | None) -> Path | None:
    """Return the socket of the agent (ssh_config(5), IdentityAgent)."""
    if is_none(agent):
        return None
    if agent == _AGENT or re.fullmatch(r"\$\w+", agent):
        path = processes.make_environment().get(agent.removeprefix("$"))
        return Path(path) if path else None
    return _resolve_file("identityagent", agent, tokens)


def _make_tokens(address: Address, raw: Raw, jumps: str | None) -> Tokens:
    """Return the values of _TOKENS."""
    name = socket.gethostname()
    host, user, port = raw["hostname"][0], raw["user"][0], str(int(raw["port"][0]))
    last = _parse_jump(jumps.rpartition(",")[2]).host if jumps else ""
    hashed = f"{name}{host}{port}{user}{last}".encode(errors="surrogateescape")
    return {
        **{"%": "%", "h": host, "p": port, "r": user, "n": address.host, "j": last},
        **{
            "d": os.path.expanduser("~"),
            "i": str(os.getuid()),
            "u": _find_local_user(),
        },
        **{"l": name, "L": name.partition(".")[0]},
        "k": raw.get("hostkeyalias", [address.host])[0],
        "C": hashlib.sha1(hashed, usedforsecurity=False).hexdigest(),
    }


def _resolve_file(keyword: str, name: str, tokens: Tokens | None) -> Path:
    """Return the file *name*; tokens: None if they are expanded already.

    Raise ConfigError for a home that does not exist: ssh(1) ends there as well.
    """
    try:
        path = expanded(name)
    except LookupError as error:
        raise ConfigError(error.args[0]) from None
    return Path(path if tokens is None else _expand(keyword, path, tokens))


def _expand(keyword: str, text: str, tokens: Tokens) -> str:
    """Return *text* with the values of its tokens and ${VARIABLES}.

    In ProxyCommand and ProxyJump a ${VARIABLE} stays as it is, as ssh(1) leaves it.
    Raise ConfigError for a token or variable without a value.  The error does not
    repeat the text: a command may hold a password.
    """

    def expand_token(token: re.Match[str]) -> str:
        if token[2] is None:
            value, what = tokens.get(token[1]), f"{token[0]} has no meaning"
        elif keyword in ("proxycommand", "proxyjump"):
            return token[0]
        else:
            value, what = environment.get(token[2]), f"no variable {token[2]} is set"
        if value is None:
            raise ConfigError(f"{keyword}: {what}")
        return value

    environment = processes.make_environment()
    return _TOKEN.sub(expand_token, text)
