"""From the flags of a verb to the host that it is about."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import click
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import Group, Verb, grouped
from dbcheck.cli.flags.load import LoadOptions
from dbcheck.cli.flags.power import PowerOptions
from dbcheck.cli.flags.target import (
    EntryOptions,
    HostOptions,
    HostUrl,
    NamedByArgument,
    NamedByFlag,
    RestartOptions,
    TargetOptions,
    TargetUrl,
    WaitOptions,
    WitnessOptions,
    list_reconcile_flags,
)
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import CutClass
from dbcheck.power.kinds.config import SwitchConfig
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig
from tests.kit.refusals import refused

G = TypeVar("G", bound=Group)
NAMED = """
all:
  hosts:
    db1:
      dbcheck_target: postgresql://u@db1/d
      dbcheck_witness: ssh://w1/logs
      dbcheck_workload: classic
      dbcheck_sessions: 3
      dbcheck_silence_s: 9
      dbcheck_wait_s: 99
"""


def parsed(kind: type[G], words: str) -> G:
    """Return the group *kind* as *words* on a command line make it."""
    found: list[G] = []

    def command(group: Group) -> None:
        assert isinstance(group, kind)
        found.append(group)

    command.__annotations__["group"] = kind
    verb = click.command("verb", cls=Verb)(grouped(command))
    verb.main(shlex.split(words), standalone_mode=False)
    return found[0]


@pytest.fixture
def named(tmp_path: Path) -> NamedByArgument:
    (tmp_path / "inventory.yml").write_text(NAMED)
    return NamedByArgument(tmp_path / "inventory.yml", "db1")


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        (TargetOptions, "--target pg://db1", Entry("", "pg://db1")),
        (HostUrl, "--target-host ssh://h", Entry("", "", host="ssh://h")),
        (
            HostOptions,
            "--target-host ssh://h --server-log /l",
            Entry("", "", host="ssh://h", server_log="/l"),
        ),
        (
            WitnessOptions,
            "--witness file:w --identity i --known-hosts k",
            Entry(
                *("", ""),
                witness="file:w",
                witness_identity=Path("i"),
                witness_known_hosts=Path("k"),
            ),
        ),
        (
            LoadOptions,
            "--workload classic --sessions 7 --silence 2",
            Entry("", "", workload="classic", sessions=7, silence_s=2),
        ),
        (WaitOptions, "--wait 7", Entry("", "", return_s=7)),
    ],
)
def test_flags_describe_a_host(
    kind: type[EntryOptions], words: str, expected: Entry
) -> None:
    nobody = NamedByFlag()
    assert find_entry(nobody, parsed(kind, words)) == expected
    assert find_entry(nobody, parsed(kind, "")) == Entry("", "")


def test_an_empty_command_leaves_what_the_inventory_has() -> None:
    known = Entry("db1", "pg://db1", restart=("a",))
    assert parsed(RestartOptions, "--restart-command ''").applied(known) == known


def test_a_password_command_is_run_by_a_shell() -> None:
    entry = find_entry(
        NamedByFlag(), parsed(TargetOptions, "--password-command 'a | b'")
    )
    assert entry.password is not None
    assert "a | b" in str(entry.password)


def test_flags_of_the_load_win_over_the_inventory(named: NamedByArgument) -> None:
    groups = (TargetOptions(), WitnessOptions(), HostOptions(), PowerOptions())
    found = find_entry(named, *groups, LoadOptions(), WaitOptions())
    load = (found.workload, found.sessions, found.silence_s, found.return_s)
    assert (found.target, found.witness) == ("postgresql://u@db1/d", "ssh://w1/logs")
    assert load == ("classic", 3, 9, 99)
    words = "--workload insert --sessions 5 --silence 5"
    given = find_entry(
        named, *groups, parsed(LoadOptions, words), parsed(WaitOptions, "--wait 1")
    )
    assert given == replace(
        found, workload="insert", sessions=5, silence_s=5, return_s=1
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (TargetUrl, "--target x"),
        (TargetOptions, "--target x"),
        (TargetOptions, "--password-command x"),
        (WitnessOptions, "--witness x"),
        (WitnessOptions, "--identity x"),
        (WitnessOptions, "--known-hosts x"),
        (HostOptions, "--target-host x"),
        (HostOptions, "--server-log x"),
        (PowerOptions, "--power manual"),
        (PowerOptions, "--cut-command x"),
        (PowerOptions, "--restore-command x"),
        (PowerOptions, "--state-command x"),
        (PowerOptions, "--off-seconds 15"),
        (PowerOptions, "--power-timeout 60"),
        (PowerOptions, "--power-class ac"),
    ],
)
def test_what_a_name_stands_for_is_refused_beside_it(
    kind: type[EntryOptions], words: str, named: NamedByArgument
) -> None:
    flag = words.split()[0]
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming=(flag, "db1")):
        find_entry(named, parsed(kind, words))


def test_a_new_host_key_may_be_accepted_beside_a_name(named: NamedByArgument) -> None:
    group = parsed(WitnessOptions, "--accept-new-host-key")
    assert group.accept_new_host_key
    assert find_entry(named, group).witness == "ssh://w1/logs"


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        ("", ManualConfig()),
        ("--power manual --power-class reset", ManualConfig(declared=CutClass.RESET)),
        ("--power-class AC", ManualConfig(declared=CutClass.AC)),
        ("--power lab:one", LabConfig("one")),
        (
            "--power exec --cut-command 'pdu off' --off-seconds 20",
            ExecConfig(("pdu", "off"), off_s=20.0),
        ),
        (
            "--power exec --cut-command c --restore-command r --state-command 's 1' "
            "--power-timeout 7 --power-class ac",
            ExecConfig(
                cut=("c",),
                restore=("r",),
                state=("s", "1"),
                timeout_s=7.0,
                declared=CutClass.AC,
            ),
        ),
    ],
)
def test_the_switch_is_what_the_flags_say(words: str, plan: SwitchConfig) -> None:
    assert find_entry(NamedByFlag(), parsed(PowerOptions, words)).power == plan


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--cut-command x", "--cut-command needs --power exec"),
        ("--power lab:one --off-seconds 15", "--off-seconds needs --power exec"),
        ("--power exec", "needs a command that cuts"),
        ('--power exec --cut-command "a \'b"', "--cut-command cannot be split"),
        ("--power lab:one --power-class ac", "is for --power exec or manual"),
        ("--power lab:", "--power lab: is not known"),
        ("--power fence", "--power fence is not known"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused(words: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find_entry(NamedByFlag(), parsed(PowerOptions, words))


def test_what_reconcile_needs_again_is_what_was_given() -> None:
    named = parsed(NamedByArgument, "db1 --inventory i.yml")
    target = parsed(TargetOptions, "--target pg://db1 --password-command 'a b'")
    host = parsed(HostOptions, "--target-host ssh://h --server-log /l")
    keys = "--witness file:w --identity i --accept-new-host-key"
    witness = parsed(WitnessOptions, keys)
    restart = parsed(RestartOptions, "--twice --restart-command 'c d'")
    words = list_reconcile_flags(named, target, host, witness, restart)
    assert shlex.join(words) == (
        "--name db1 --inventory i.yml --password-command 'a b' --identity i "
        "--target-host ssh://h --server-log /l --twice --restart-command 'c d'"
    )
    nothing = (NamedByArgument(), TargetOptions(), HostOptions(), WitnessOptions())
    assert list_reconcile_flags(*nothing, RestartOptions()) == []
