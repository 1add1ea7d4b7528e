"""The commands that a report gives to repeat a run describe that run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import click
import pytest

from dbcheck.cli.flags.groups import Verb, grouped
from dbcheck.cli.flags.lab import (
    ServerOptions,
    StorageOptions,
    list_lab_flags,
    make_lab_spec,
)
from dbcheck.cli.flags.load import WorkloadOptions
from dbcheck.cli.flags.shared import draw_seed
from dbcheck.cli.report import list_steps
from dbcheck.config.workload_file import load
from dbcheck.config.workload_file import load as named
from dbcheck.cycle.judging import judge_run
from dbcheck.lab.clusters.spec import ClusterSpec
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.records import Manifest
from dbcheck.rows.workload import Workload
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.stored_run import manifest, stored_run

MIXED = DriveSpec(
    personality="failing",
    flush_ms=0.5,
    write_ms=2.25,
    destage_age_s=0.0,
    cache_bytes=3 << 20,
    kept_writes="torn",
    seed=40,
    honest_flushes=7,
    lost_above_bytes=4096,
    tear_bytes=512,
    forget_at_bytes=1 << 20,
    forget_bytes=1024,
)
SPECS = [
    LabSpec("postgresql", drive=DriveSpec(seed=40)),
    LabSpec("mysql", cut="process", drive=DriveSpec(seed=40)),
    LabSpec(
        "mariadb",
        filesystem="ext4",
        mount_options="barrier=0,noatime",
        write_cache="write through",
        drive=MIXED,
        settings={"innodb_flush_log_at_trx_commit": "2", "sql_mode": "A B"},
        log_drive=True,
    ),
    LabSpec("postgresql", drive=DriveSpec("fickle", seed=40, lie_fraction=0.75)),
    LabSpec("postgresql", drive=DriveSpec("reordering", seed=40, newest_bytes=9)),
]


@click.command(cls=Verb)
@grouped
@click.option("--cycles", type=int, default=1)
@click.option("--control", is_flag=True)
def parsed(
    server: ServerOptions,
    storage: StorageOptions,
    load: WorkloadOptions,
    cycles: int,
    control: bool,
) -> tuple[LabSpec, Workload, int, bool]:
    spec = make_lab_spec(server, storage, draw_seed(server.seed))
    workload = load.apply_to_workload(named(load.workload))
    return spec, workload, cycles, control


def understood(arguments: list[str]) -> tuple[LabSpec, Workload, int, bool]:
    """Return what `lab run` would make of these arguments."""
    found: tuple[LabSpec, Workload, int, bool] = parsed.main(
        arguments, standalone_mode=False
    )
    return found


def command_of(path: Path, changed: Manifest) -> list[str]:
    """Return the command that repeats a run with that manifest."""
    run = stored_run(RunFolder.create(path, changed))
    outcome = judge_run(run, FrameLogReader())
    again, repeat = list_steps(outcome)
    assert shlex.split(again.command) == [
        *("dbcheck", "reconcile", str(run.path), "--offline"),
    ]
    return shlex.split(repeat.command)


@pytest.mark.parametrize("spec", SPECS)
def test_the_flags_of_a_lab_describe_that_lab(spec: LabSpec) -> None:
    flags = [*list_lab_flags(spec), "--seed", "40"]
    assert understood(flags)[0] == spec


@pytest.mark.parametrize("spec", SPECS)
def test_the_command_of_a_lab_s_run_makes_the_same_load(
    spec: LabSpec, tmp_path: Path
) -> None:
    workload = replace(
        load("insert"), sessions=5, rate=250.0, ramp_s=1.5, processes=2, readers=1
    )
    changed = replace(
        manifest(), lab=spec.to_values(), seed=42, controls=(), workload=workload
    )
    command = command_of(tmp_path, changed)
    assert command[:3] == ["dbcheck", "lab", "run"]
    found = understood(command[3:])
    assert found == (spec, workload, 3, False)  # cycle n has the lab's seed + n


def test_the_processes_that_a_client_chose_are_repeated_on_every_client(
    tmp_path: Path,
) -> None:
    chosen = replace(load("insert"), sessions=16).for_cores(16)
    command = command_of(tmp_path / "real", replace(manifest(), workload=chosen))
    assert command[command.index("--processes") + 1] == "4"
    usual = replace(load("insert"), processes=1)
    real = replace(manifest(), workload=usual)
    assert "--processes" in command_of(tmp_path / "one", real)
    lab = replace(real, lab=SPECS[0].to_values(), seed=40)
    assert "--processes" not in command_of(tmp_path / "lab", lab)


def test_a_run_behind_controls_is_repeated_behind_controls(tmp_path: Path) -> None:
    changed = replace(manifest(), lab=SPECS[0].to_values(), seed=40)
    assert understood(command_of(tmp_path, changed)[3:])[2:] == (1, True)


def test_the_command_of_a_real_run_names_what_the_run_had(tmp_path: Path) -> None:
    command = command_of(tmp_path, manifest())
    assert command[:2] == ["dbcheck", "run"]
    given = dict(zip(command[2::2], command[3::2], strict=True))
    assert given == {
        "--target": "postgresql://u@h/d",
        "--witness": "ssh://w/folder",
        "--seed": "1",
        "--power": "exec",
        "--workload": "insert",
        "--sessions": str(load("insert").sessions),
    }


def test_what_a_load_has_otherwise_than_its_workload_is_named(tmp_path: Path) -> None:
    own = replace(manifest().workload, name="mine", rate=0.5, processes=2)
    command = command_of(tmp_path, replace(manifest(), workload=own))
    given = dict(zip(command[2::2], command[3::2], strict=True))
    assert given["--workload"] == "mine"  # which no file here has
    assert (given["--rate"], given["--sessions"]) == ("0.5", str(own.sessions))
    assert given["--processes"] == str(own.processes)


def test_a_forged_lab_gives_no_command(tmp_path: Path) -> None:
    lab = {"cut": "drive", "drive": "; rm -rf /", "engine": "postgresql"}
    run = stored_run(RunFolder.create(tmp_path, replace(manifest(), lab=lab)))
    outcome = judge_run(run, FrameLogReader())
    assert [step.command.split()[1] for step in list_steps(outcome)] == ["reconcile"]


@pytest.mark.parametrize(
    ("cluster", "flags"),
    [
        (ClusterSpec(), "--nodes 2"),
        (ClusterSpec(3, "all", "galera"), "--nodes 3 --promise all --topology galera"),
        (
            ClusterSpec(link_delay_ms=2.5, link_down_after_s=1),
            "--nodes 2 --link-delay-ms 2.5 --link-down-after 1",
        ),
        (
            ClusterSpec(pause_after_s=1, pause_s=3),
            "--nodes 2 --pause-after 1 --pause-s 3",
        ),
        (
            ClusterSpec(
                3, partition_after_s=1, partition="flapping", cut_in_fault=True
            ),
            "--nodes 3 --partition-after 1 --partition flapping --cut-in-fault",
        ),
        (ClusterSpec(network=True), "--nodes 2 --network"),
        (ClusterSpec(rejoin=True), "--nodes 2 --rejoin"),
        (
            ClusterSpec(promoted_by="patroni"),
            "--nodes 2 --promoted-by patroni",
        ),
        (
            ClusterSpec(3, "all", "galera", stagger_s=3),
            "--nodes 3 --promise all --topology galera --stagger 3",
        ),
    ],
)
def test_a_lab_s_cluster_is_repeated_as_one(
    cluster: ClusterSpec, flags: str, tmp_path: Path
) -> None:
    lab = {**SPECS[0].to_values(), "cluster": cluster.to_values()}
    command = shlex.join(command_of(tmp_path, replace(manifest(), lab=lab, seed=40)))
    assert f" {flags} --seed 40" in command


def test_a_run_of_a_stranger_is_not_to_be_repeated(tmp_path: Path) -> None:
    """Its manifest would choose the server that gets the password."""
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    assert len(list_steps(judge_run(run, FrameLogReader()))) == 2
    foreign = RunFolder.open(run.path)  # nothing in the state folder knows it
    (step,) = list_steps(judge_run(foreign, FrameLogReader()))
    assert step.command.endswith("--offline")
