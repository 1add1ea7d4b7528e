"""The flags that describe a host in a few words, and the questions for what is missing.

The questions are asked on a terminal only, by click: an answer that cannot be used is
explained and asked for again.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.text import quoted
from dbcheck.cli.flags.groups import Flag, FlagsOf, Group
from dbcheck.cli.flags.target import host_flag
from dbcheck.cli.say import say
from dbcheck.config.target import TargetSettings
from dbcheck.inventory.newhost import (
    MANUAL,
    NewHost,
    list_switches,
    require_name,
    suggest_name,
)
from dbcheck.model.managed import find_service_of_hosts
from dbcheck.remote.way import LOCAL, find_way
from dbcheck.runner import assemble
from dbcheck.witness.url import open_witness

_SWITCHES = list_switches()
_NO_HOST = "none"
# The options of a URL by which libpq connects to another host than the URL's own.
_ELSEWHERE = ("host", "hostaddr", "service")
_INTRO = "dbcheck asks for what is missing. Enter takes the answer that is in brackets."
_ABOUT_TARGET = (
    "The server, as a URL without a password:",
    "  postgresql+psycopg2://dbcheck@db1.example.net/dbcheck",
    "  mysql+mysqlconnector://dbcheck@db1.example.net/dbcheck",
)
_ABOUT_WITNESS = (
    "The witness: a host that keeps its power and logs each acknowledged commit.",
    "  ssh://me@witness.example.net/~/dbcheck    another host, over SSH",
    "  file:~/dbcheck                            this machine",
)
_ABOUT_HOST = (
    "SSH to the server's host, best as root: it shows how deep a cut goes, and that",
    f"the right host was cut. {_NO_HOST}: do without it. {LOCAL} it is this machine.",
)
_ABOUT_SWITCH = (
    f"Who cuts the power: {MANUAL} (you pull the plug when asked), or a switch:",
    *(f"  {line}" for line in textwrap.wrap(", ".join(_SWITCHES[1:]), 76)),
    f"Another one, or a program of yours: take {MANUAL}, then put yours into the file;",
    "docs/power.md has its lines.",
)
_ABOUT_NAME = (
    "A name for the server's host. A switch cuts it only if that is its host name.",
)


@dataclass(frozen=True)
class NewHostOptions(Group):
    """A host that is in no inventory yet."""

    section = "Host"

    of_target: Annotated[
        Mapping[str, Any],
        FlagsOf(
            TargetSettings,
            ("target", "witness", "witness_identity", "witness_known_hosts"),
        ),
    ] = field(default_factory=dict)
    target_host: Annotated[
        str | None,
        host_flag("Without it nothing measures how deep a cut goes."),
    ] = None
    switch: Annotated[
        str | None,
        Flag(
            "--switch",
            type=click.Choice(_SWITCHES),
            metavar="NAME",
            help="Who cuts: manual (you are asked to pull the plug), or a switch of "
            f"docs/guides/switches.md: {', '.join(_SWITCHES[1:])}.",
        ),
    ] = None
    host_name: Annotated[
        str | None,
        Flag(
            "--name",
            metavar="NAME",
            help="Name of the host in the inventory. Default: the first label of its "
            "host name, else db1.",
        ),
    ] = None

    @property
    def describes_host(self) -> bool:
        """True if a flag is given that only a described host needs."""
        return bool(self.given - {"switch"})

    def make_host(self) -> NewHost:
        """Return the host of the flags; raise UsageError if a URL is missing."""
        values = dict(self.of_target)
        for setting, flag in (("target", "--target"), ("witness", "--witness")):
            if not values.get(setting):
                raise UsageError(
                    f"{flag} is missing",
                    id=ErrorId.OPTION_NEEDS_ANOTHER,
                    hint="Give --target and --witness, and --target-host if dbcheck"
                    " may log in to the server's host.",
                )
        host = self.target_host or ""
        name = self.host_name or suggest_name(values["target"], host)
        return NewHost(name=name, host=host, switch=self.switch or MANUAL, **values)

    def ask_for_rest(self) -> NewHost:
        """Return the host of the flags, and of answers to questions for the rest."""
        urls = [self.of_target.get(key) for key, *_ in _URLS]
        if not (all(urls) and {"target_host", "switch", "host_name"} <= self.given):
            say(_INTRO, err=True)
        if self.target_host:
            find_way(self.target_host)
        if self.host_name is not None:
            require_name(self.host_name)
        values: dict[str, Any] = dict(self.of_target)
        for key, label, about, check in _URLS:
            if values.get(key):
                check(values[key])
            else:
                values[key] = _ask(label, about, None, check)
        host, switch, name = self.target_host, self.switch, self.host_name
        if host is None:
            default = _suggest_host(values["target"])
            host = _ask("Server's host", _ABOUT_HOST, default, _check_host)
            host = "" if host == _NO_HOST else host
        if switch is None:
            switch = _ask("Switch", _ABOUT_SWITCH, MANUAL, _check_switch)
        if name is None:
            default = suggest_name(values["target"], host)
            name = _ask("Name", _ABOUT_NAME, default, require_name)
        say("", err=True)
        return NewHost(name=name, host=host, switch=switch, **values)


def is_interactive() -> bool:
    """Return True if a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(
    label: str,
    about: tuple[str, ...],
    default: str | None,
    check: Callable[[str], object],
) -> str:
    """Return the answer to a question; one that *check* refuses is asked for again."""

    def read(text: str) -> str:
        answer = text.strip()
        try:
            check(answer)
        except UsageError as error:
            raise click.BadParameter(_fold(quoted(error.with_hint))) from None
        return answer

    say("", *about, err=True)
    answer: str = click.prompt(label, default=default, err=True, value_proc=read)
    return answer


def _fold(text: str) -> str:
    """Return *text* in lines for a terminal of 80 columns, after click's "Error: "."""
    folded = textwrap.fill(
        f"Error: {text}", 79, break_long_words=False, break_on_hyphens=False
    )
    return folded.removeprefix("Error: ")


def _suggest_host(target: str) -> str:
    """Return the URL of the host that a server's URL names, for SSH as root.

    Return _NO_HOST if the URL names no single host, or one of a provider.
    """
    try:
        url = urlsplit(target)
        options = parse_qs(url.query)
    except ValueError:
        return _NO_HOST
    host, sockets = url.hostname or "", options.get("unix_socket", [])
    given = ",".join(value for name in _ELSEWHERE for value in options.get(name, []))
    elsewhere = given.split(",") if given else []
    if sockets or (elsewhere and all(each.startswith("/") for each in elsewhere)):
        return LOCAL
    if not host or "," in host or elsewhere or find_service_of_hosts([host]):
        return _NO_HOST
    if host in ("localhost", "127.0.0.1", "::1"):
        return LOCAL
    return f"ssh://root@[{host}]" if ":" in host else f"ssh://root@{host}"


def _check_target(url: str) -> None:
    assemble.make_engine(url, None)


def _check_witness(url: str) -> None:
    open_witness(url).close()


# Each URL that a new host needs -> how it is asked for, and checked.
_URLS: tuple[tuple[str, str, tuple[str, ...], Callable[[str], None]], ...] = (
    ("target", "Server", _ABOUT_TARGET, _check_target),
    ("witness", "Witness", _ABOUT_WITNESS, _check_witness),
)


def _check_host(url: str) -> None:
    if url != _NO_HOST:
        find_way(url)


def _check_switch(name: str) -> None:
    if name not in _SWITCHES:
        raise UsageError(
            f"{name!r} is no switch that dbcheck knows",
            id=ErrorId.SWITCH_KIND_UNKNOWN,
            hint=f"Type one of {', '.join(_SWITCHES)}.",
        )
