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

from dbcheck import children
from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.owners import expanded
from dbcheck.remote.address import USER_CONFIG, Address, Proxy
from dbcheck.remote.sshasked import OpenSsh, Raw, ask, installed
from dbcheck.remote.sshfiles import (
    SYSTEM_CONFIG,
    ConfigError,
    folder_of,
    lines,
    require_closed,
)
from dbcheck.remote.sshlogin import Keys
from dbcheck.remote.sshread import YES, Reader, is_none, is_port

_USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
_GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
_AGENT = "SSH_AUTH_SOCK"
_TOKENS = frozenset("%CLdhijklnpru")  # ssh_config(5), TOKENS, of OpenSSH 10.0
_TOKEN = re.compile(r"%(.?)|\$\{([^}]*)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach a host, what to know it by, and how to log in there.

    jumps:           the hosts to go through, one after the other.
    proxy_command:   what to run for a connection instead.
    alias:           the name of the host in lists of keys, instead of its own.
    known_hosts:     the lists of keys, the user's first.
    revoked_keys:    lists of keys that are refused (ssh_config(5), RevokedHostKeys).
    keys:            what to log in with.
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


def settings(
    address: Address,
    config_file: Path = USER_CONFIG,
    limit_s: float = 15.0,
    proxy: Proxy | None = None,
) -> Settings:
    """Return the settings for *address*; raise UsageError if they cannot be had.

    proxy: what leads there, if the configuration is not to say it.  ssh(1) is asked
    where it can be, for *limit_s* seconds at most; then the system's configuration
    counts after the user's own, which any other *config_file* replaces.  A file that
    does not exist says nothing.
    """
    path = config_file.expanduser()
    ssh = installed()
    given = {} if proxy is None else _raw(proxy)
    try:
        if ssh is None:
            return _settings(address, _read(address, path) | given, expanded=False)
        raw = _ask(ssh, address, path, limit_s)
        return _settings(address, raw | given, expanded=ssh.expands_files)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot use the SSH configuration: {_about(path, error)}",
            id=ErrorId.SSH_CONFIG_INVALID,
            hint="Fix that file, or write host, user and port into the URL.",
        ) from error


def _raw(proxy: Proxy) -> Raw:
    """Return *proxy* as a configuration has it; raise UsageError."""
    for token in _TOKEN.finditer(f"{proxy.command}\n{proxy.jump}"):
        if token[2] is None and token[1] not in _TOKENS:
            raise UsageError(
                f"{token[0]} stands for nothing in a ProxyCommand or ProxyJump",
                id=ErrorId.SSH_ARGUMENT_NOT_SUPPORTED,
                hint="Write %% for the character; %h, %n, %p and %r are host, its name"
                " as given, port and user.",
            )
    if proxy.jump_is_none:
        return {"proxyjump": ["none"]}
    return {
        "proxycommand": [proxy.command or "none"],
        "proxyjump": [proxy.jump or "none"],
    }


def _about(path: Path, error: Exception) -> str:
    """Return what is wrong, beginning with the file; *path* if it names none."""
    said = str(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return said if said.startswith("/") else f"{path}: {said}"


def _ask(ssh: OpenSsh, address: Address, path: Path, limit_s: float) -> Raw:
    is_usual = path == USER_CONFIG.expanduser()
    for file in (path, *([SYSTEM_CONFIG] if is_usual else [])):
        if file.exists():
            require_closed(file, folder_of(file))
    alone = path if path.exists() else Path(os.devnull)
    return ask(ssh, address, None if is_usual else alone, limit_s)


def _read(address: Address, path: Path) -> Raw:
    reader = Reader(address, _local_user())
    with contextlib.suppress(FileNotFoundError):
        reader.read(lines(path), folder_of(path))
    keys = {"identityfile": [f"~/.ssh/{name}" for name in _KEYS]}
    files = {
        "userknownhostsfile": _USER_KNOWN_HOSTS.split(),
        "globalknownhostsfile": _GLOBAL_KNOWN_HOSTS.split(),
    }
    return keys | files | reader.result()


def _local_user() -> str:
    """Return the name of this user, "" if there is none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pass
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no variable names one, either
        return ""


def _settings(address: Address, raw: Raw, *, expanded: bool) -> Settings:
    """Return the settings that *raw* spells.

    expanded: names of the agent and of lists of hosts hold no more tokens.
    """

    def value(keyword: str) -> str | None:
        found = raw.get(keyword, ["none"])[0]
        return None if is_none(found) else found

    def files(keyword: str, meaning: Mapping[str, str] | None) -> list[Path]:
        names = dict.fromkeys(raw.get(keyword, []))
        return [_file(name, meaning) for name in names if not is_none(name)]

    port = raw["port"][0]
    if not is_port(port):
        raise ConfigError(f"{port!r} is no port")
    jumps = value("proxyjump")
    meaning = _meaning(address, raw, jumps)
    left = None if expanded else meaning
    if value("proxyusefdpass") in YES and not jumps:
        raise ConfigError("dbcheck does not support ProxyUseFdpass")
    command, alias = value("proxycommand"), value("hostkeyalias")
    return Settings(
        raw["hostname"][0],
        int(port),
        raw["user"][0],
        _jumps(jumps, meaning),
        None if jumps or not command else _spelled(command, meaning, variables=False),
        alias.lower() if alias else None,
        (*files("userknownhostsfile", left), *files("globalknownhostsfile", None)),
        (*files("revokedhostkeys", None),),
        Keys(
            (*files("identityfile", meaning),),
            (*files("certificatefile", meaning),),
            _agent(raw.get("identityagent", [_AGENT])[0], left),
            (value("identitiesonly") or "").lower() in YES,
        ),
    )


def _jumps(jumps: str | None, meaning: Mapping[str, str]) -> tuple[Address, ...]:
    if jumps is None:
        return ()
    # Split first: the name of the user, for one, may hold a comma.
    return tuple(
        _jump(_spelled(jump, meaning, variables=False)) for jump in jumps.split(",")
    )


def _jump(text: str) -> Address:
    return Address.parse(text.strip().removeprefix("ssh://"))


def _agent(named: str, meaning: Mapping[str, str] | None) -> Path | None:
    """Return the socket of the agent (ssh_config(5), IdentityAgent)."""
    if is_none(named):
        return None
    if named == _AGENT or re.fullmatch(r"\$\w+", named):
        socket_of = children.environment().get(named.removeprefix("$"))
        return Path(socket_of) if socket_of else None
    return _file(named, meaning)


def _meaning(address: Address, raw: Raw, jumps: str | None) -> dict[str, str]:
    """Return what each of _TOKENS stands for."""
    name = socket.gethostname()
    host, user, port = raw["hostname"][0], raw["user"][0], str(int(raw["port"][0]))
    last = _jump(jumps.rpartition(",")[2]).host if jumps else ""
    hashed = f"{name}{host}{port}{user}{last}".encode(errors="surrogateescape")
    return {
        **{"%": "%", "h": host, "p": port, "r": user, "n": address.host, "j": last},
        **{"d": os.path.expanduser("~"), "i": str(os.getuid()), "u": _local_user()},
        **{"l": name, "L": name.partition(".")[0]},
        "k": raw.get("hostkeyalias", [address.host])[0],
        "C": hashlib.sha1(hashed, usedforsecurity=False).hexdigest(),
    }


def _file(name: str, meaning: Mapping[str, str] | None) -> Path:
    """Return the file of that name, its tokens spelled out if a *meaning* is given.

    Raise ConfigError for a home that there is not: ssh(1) ends there as well.
    """
    try:
        path = expanded(name)
    except LookupError as error:
        raise ConfigError(error.args[0]) from None
    return Path(path if meaning is None else _spelled(path, meaning, variables=True))


def _spelled(text: str, meaning: Mapping[str, str], *, variables: bool) -> str:
    """Return *text* with its tokens spelled out; raise ConfigError for others.

    variables: ${NAME} stands for a variable of the environment as well.
    """
    environment = children.environment()

    def one(token: re.Match[str]) -> str:
        if token[2] is None:
            found = meaning.get(token[1])
        elif not variables:
            return token[0]
        else:
            found = environment.get(token[2])
        if found is None:
            raise ConfigError(f"{token[0]} stands for nothing here")
        return found

    return _TOKEN.sub(one, text)
