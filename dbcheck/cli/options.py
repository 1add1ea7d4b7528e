"""Options that several verbs share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dbcheck import limits
from dbcheck.core.cutclass import DECLARABLE

F = TypeVar("F", bound=Callable[..., Any])


class Number(click.FloatRange):
    """A number between two others; click's own takes "nan", which is no number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; fail if it is none, or out of range."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


# No upper bound that a user could meet; infinity is beyond it.
SECONDS = Number(limits.SECONDS_MIN, limits.SECONDS_MAX)
SEED = click.IntRange(0, 2**62)
INVENTORY = "inventory.yml"


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def target(*, required: bool) -> Callable[[F], F]:
    """Add --target and the ways to give its password."""
    return _all(
        click.option(
            "--target",
            metavar="URL",
            required=required,
            help="The server, as a SQLAlchemy URL without a password, e.g. "
            "postgresql+psycopg2://dbcheck@db1/dbcheck or "
            "mysql+mysqlconnector://dbcheck@db1/dbcheck.",
        ),
        click.option(
            "--password-command",
            metavar="CMD",
            help="Prints the password as its first line. Without it: DBCHECK_PASSWORD, "
            "PGPASSWORD or ~/.pgpass, MYSQL_PWD or ~/.my.cnf.",
        ),
    )


def name() -> Callable[[F], F]:
    """Add --name, for a verb whose argument is a run."""
    return click.option(
        "--name", metavar="NAME", help="The host in the inventory; instead of flags."
    )


def inventory() -> Callable[[F], F]:
    """Add --inventory, where a NAME is looked up."""
    return click.option(
        "--inventory",
        type=click.Path(path_type=Path),
        default=Path(INVENTORY),
        show_default=True,
        envvar="DBCHECK_INVENTORY",
        show_envvar=True,
        help="Ansible's, with variables of dbcheck's; dbcheck init writes one.",
    )


def consent() -> Callable[[F], F]:
    """Add what has to be confirmed before an unattended switch cuts."""
    return _all(
        click.option(
            "--yes",
            is_flag=True,
            help="Confirm the first cut of this host by this switch; without it the "
            "cut is only described.",
        ),
        click.option(
            "--i-know",
            is_flag=True,
            help="Cut although the server holds other databases, has other clients, "
            "or does not report them; or although its address is not one of the "
            "host's.",
        ),
    )


def witness(*, required: bool) -> Callable[[F], F]:
    """Add --witness and what SSH needs to know."""
    return _all(
        click.option(
            "--witness",
            metavar="URL",
            required=required,
            help="Where acks are logged: ssh://user@host:port/~/folder, in that user's "
            "home, or file:FOLDER on this machine if the target is another one.",
        ),
        click.option(
            "--accept-new-host-key",
            is_flag=True,
            help="Trust and store the host key of a witness that is not known yet.",
        ),
        click.option(
            "--identity",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Private key for the witness; else what ssh itself would use.",
        ),
        click.option(
            "--known-hosts",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File of known host keys; else what ssh itself would use.",
        ),
    )


def host() -> Callable[[F], F]:
    """Add how to reach the target's host, which makes the evidence stronger."""
    return _all(
        click.option(
            "--target-host",
            metavar="URL",
            help="ssh://user@host:port of the target's host, or local: if it is this "
            "one. Measures how deep the cut went, with files beside the data "
            "directory that are removed again; the user must be able to write there.",
        ),
        click.option(
            "--server-log",
            metavar="PATH",
            default="",
            help="The server's log on --target-host, a file or a folder of them; else "
            "where the server says that it is.",
        ),
    )


def power() -> Callable[[F], F]:
    """Add --power and the commands of an exec switch."""
    return _all(
        click.option(
            "--power",
            default="manual",
            show_default=True,
            metavar="KIND",
            help="Who cuts: manual (you are asked), exec (the commands below), or "
            "lab:NAME (a lab that runs on this machine); fence and sysrq need an "
            "inventory.",
        ),
        click.option(
            "--cut-command",
            metavar="CMD",
            default="",
            help="exec: drops the power. No shell: words are split at blanks.",
        ),
        click.option(
            "--restore-command",
            metavar="CMD",
            default="",
            help="exec: applies it again; leave out if it comes back by itself.",
        ),
        click.option(
            "--state-command",
            metavar="CMD",
            default="",
            help="exec: prints on or off as its last word.",
        ),
        click.option(
            "--off-seconds",
            type=Number(limits.OFF_S_MIN, limits.OFF_S_MAX),
            default=limits.OFF_S,
            show_default=True,
            metavar="S",
            help="exec: seconds without power, at least.",
        ),
        _power_class(),
        click.option(
            "--power-timeout",
            type=SECONDS,
            default=limits.POWER_TIMEOUT_S,
            show_default=True,
            metavar="S",
            help="exec: seconds that each command may take.",
        ),
    )


def _power_class() -> Callable[[F], F]:
    return click.option(
        "--power-class",
        type=click.Choice(DECLARABLE, case_sensitive=False),
        help="exec, manual: what the cut takes the power from; it caps what a PASS "
        "claims. Without it manual is AC, and exec unknown.",
    )


def tempo() -> Callable[[F], F]:
    """Add how many sessions there are, and how fast."""
    return _all(
        click.option("--sessions", type=int, help="Connections; else the workload's."),
        click.option(
            "--processes",
            type=click.IntRange(1, limits.PROCESSES_MAX),
            metavar="N",
            help="Processes that share the sessions, each with a log of its own on the "
            "witness; else the workload's. One is a core of this machine.",
        ),
        click.option(
            "--rate",
            type=Number(0, limits.RATE_MAX),
            metavar="N",
            help="Commits per second of all sessions; 0: as many as can be.",
        ),
        click.option(
            "--ramp",
            type=Number(0, limits.RAMP_S_MAX),
            metavar="S",
            help="Seconds within which the sessions begin, one after the other.",
        ),
    )


def load() -> Callable[[F], F]:
    """Add what shapes the load."""
    return _all(
        click.option(
            "--workload",
            default="insert",
            show_default=True,
            metavar="NAME|FILE",
            help="insert, classic, or a TOML file of your own.",
        ),
        tempo(),
        click.option(
            "--seed",
            type=SEED,
            help="Decides the moment of the cut and the size of each row; their bytes "
            "are new in each run.",
        ),
        click.option(
            "--silence",
            type=SECONDS,
            default=limits.SILENCE_S,
            show_default=True,
            metavar="S",
            help="Without any reply for so long, the server counts as gone.",
        ),
        click.option(
            "--window",
            type=click.IntRange(1),
            default=limits.WINDOW_ACKS,
            show_default=True,
            metavar="N",
            help="Most acks of a process that may wait for the witness; then its "
            "sessions wait.",
        ),
        click.option(
            "--lockstep",
            is_flag=True,
            help="Each session waits until the witness has its last ack.",
        ),
    )


def until() -> Callable[[F], F]:
    """Add --until, the bound that the cuts are to show."""
    return click.option(
        "--until",
        type=Number(0.0001, 0.5),
        metavar="BOUND",
        help="As many cuts as show, if none loses, that at most this share of cuts "
        "lose (95% confidence), or up to the first loss; 0.05 takes 59.",
    )


def waiting() -> Callable[[F], F]:
    """Add how long to wait for the server."""
    return click.option(
        "--wait",
        type=SECONDS,
        default=limits.RETURN_S,
        show_default=True,
        metavar="S",
        help="Seconds that the server may take to come back.",
    )


def runs() -> Callable[[F], F]:
    """Add where run folders go."""
    return click.option(
        "--runs",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("runs"),
        show_default=True,
        help="Folder for the run folders.",
    )


def as_json() -> Callable[[F], F]:
    """Add --json."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."
    )
