"""dbcheck lab: cycles on a virtual drive under real filesystems and real servers."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import FOLDER, Verb, VerbGroup, grouped, option
from dbcheck.cli.flags.lab import (
    ClusterOptions,
    ServerOptions,
    StorageOptions,
    make_lab_spec,
)
from dbcheck.cli.flags.load import WorkloadOptions
from dbcheck.cli.flags.shared import draw_seed
from dbcheck.cli.flags.target import TwiceOptions
from dbcheck.cli.lab_explore import command as explore
from dbcheck.cli.output import write_file
from dbcheck.cli.say import say
from dbcheck.config import workload_file
from dbcheck.cycle.outcome import Outcome
from dbcheck.explore.folder import Exploration
from dbcheck.explore.oracle import Acked
from dbcheck.judge.result import to_values
from dbcheck.judge.results import LabResult
from dbcheck.lab import lab as labs
from dbcheck.lab import programs
from dbcheck.lab.clusters.spec import ClusterSpec, require_possible
from dbcheck.lab.drive.logwrites import encode_log
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.fetch import (
    GALERA,
    MYROCKS,
    Part,
    fetch_part,
    fetch_patroni,
    fetch_patroni_4,
)
from dbcheck.lab.fetch import fetch as fetch_into
from dbcheck.lab.lab import Lab
from dbcheck.lab.restoring.methods import MethodName
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import PPM, compute_cuts_needed, find_worst
from dbcheck.report.console import make_console, make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.matrix import draw_copies, draw_cycles
from dbcheck.report.verdict import verdict_report
from dbcheck.report.words.run import headline, tally
from dbcheck.runner.lab_clusters import run_cluster_cycles
from dbcheck.runner.lab_cycles import (
    adapt_workload_to_lab,
    describe_lab,
    run_lab_cycles,
    stop_at_first_loss,
)
from dbcheck.runner.lab_restores import run_restore_cycles
from dbcheck.runner.lab_rig import open_exploration


@click.command("fetch", cls=Verb)
@click.argument("server", type=click.Choice(("mysql", "myrocks", "galera", "patroni")))
def fetch(server: str) -> None:
    """Fetch MySQL, MyRocks, Galera or Patroni for labs.

    What this machine has already is not fetched.

    No release of Debian has MySQL: "mysql" takes the server of Debian unstable (60 MB).
    "myrocks" takes the storage engine MyRocks of the MariaDB that is installed (3 MB),
    without the service that its package brings; "galera" takes what makes a cluster of
    that MariaDB (7 MB). "patroni" takes Patroni and etcd, without their services (9
    MB). All come from the mirror that this machine uses, and apt checks them with
    Debian's keys. It also takes Patroni 4, by pip and by its digest. Nothing is
    installed. It needs no root; but fetch Patroni as root, as its labs run as root.
    """
    say(f"{server}: {_FETCH_FUNCTIONS[server]()}")


def _fetch_mysql() -> Path | None:
    program = programs.find_mysqld()
    if program is None:
        if os.environ.get(programs.MYSQLD_VARIABLE):
            raise programs.misnamed_program_error(programs.MYSQLD_VARIABLE, "mysqld")
        folder = programs.mysql_folder()
        say(f"fetching a MySQL server (60 MB) into {folder}")
        fetch_into(folder)
        program = programs.find_mysqld()
    return program


def _fetch_myrocks() -> Path | None:
    if programs.find_rocksdb() is None:
        _fetch_part(MYROCKS, "MyRocks (3 MB)", programs.myrocks_folder())
    return programs.find_rocksdb()


def _fetch_galera() -> Path | None:
    names = (programs.GALERA, *programs.TRANSFER)
    if not all(map(programs.find_galera, names)):
        _fetch_part(GALERA, "Galera (7 MB)", programs.galera_folder())
    return programs.find_galera(programs.GALERA)


def _fetch_part(part: Part, name: str, folder: Path) -> None:
    programs.require("mariadbd")
    say(f"fetching MariaDB's {name} into {folder}")
    fetch_part(part, folder)


def _fetch_patroni() -> Path | None:
    if not all(map(programs.find_patroni, programs.PATRONI)):
        folder = programs.patroni_folder()
        say(f"fetching Patroni and etcd (9 MB) into {folder}")
        fetch_patroni(folder)
    if programs.find_patroni(programs.PATRONI_4) is None:
        folder = programs.patroni_4_folder()
        say(f"fetching Patroni 4 (0.4 MB) into {folder}")
        fetch_patroni_4(folder)
    return programs.find_patroni("patroni")


_FETCH_FUNCTIONS = {
    "mysql": _fetch_mysql,
    "myrocks": _fetch_myrocks,
    "galera": _fetch_galera,
    "patroni": _fetch_patroni,
}


@click.command("log-writes", cls=Verb)
@click.argument("folder", metavar="FOLDER", type=FOLDER)
@shared.written_to(
    "The file to make. If the lab had a log drive, FILE has the data's drive and "
    "FILE.log the log's.",
    required=True,
)
def log_writes(folder: Path, file: Path) -> None:
    """Write what the drives recorded as logs of dm-log-writes.

    FOLDER is one that dbcheck lab explore made. Tools such as xfstests' replay-log
    rebuild states of the drive from such a log, on a device that is as large and holds
    zeros. Each ack of the recorded load is a mark, behind every flush that the drive
    had answered by then.
    """
    found = open_exploration(Exploration.open(folder))
    acked, recordings = found.acked, found.timeline.recordings
    files = _name_new_files(file, recordings)
    for path, recording in zip(files, recordings, strict=True):
        marks, content = encode_log(recording, _list_marks(acked))
        write_file(path, content)
        say(
            f"{path}: {len(recording):,} writes and {len(recording.flushes):,} flushes"
            f" of a drive of {recording.size_bytes:,} bytes, {marks:,} of"
            f" {len(acked):,} acks as marks"
        )


def _name_new_files(file: Path, recordings: Sequence[Recording]) -> list[Path]:
    """Return the path of a new file for each drive; raise UsageError if one exists."""
    files = [file, file.with_name(f"{file.name}.log")][: len(recordings)]
    for path in files:
        if os.path.lexists(path):
            raise UsageError(
                f"{path} is there already",
                id=ErrorId.FILE_EXISTS,
                hint="Name a new file with -o, or remove that one.",
            )
    return files


def _list_marks(acked: Acked) -> Iterator[tuple[int, str]]:
    """Yield the time of each ack, and the text of its mark."""
    for session, seq, row_id, acked_us in acked.each():
        yield acked_us, f"ack session {session} operation {seq} id {row_id}"


_SPARE_CYCLES = 3  # beside the cuts that --until needs, as some are inconclusive
_DISK_FOLDER = Path("/var/tmp")  # never in memory, as /tmp may be: a witness needs that


@click.group("lab", cls=VerbGroup)
def command() -> None:
    """Run cycles on a virtual drive with real servers.

    The lab is a drive with a volatile write cache, a real filesystem on it, a
    real server, and a real sshd as the witness, all on this machine. Its power
    can be cut as often as you like. It needs root, /dev/fuse and loop devices;
    without them only the server process can be killed (--cut process), and that
    proves much less.
    """


def _require_one_goal(cycles: int | None, until: float | None) -> None:
    """Raise UsageError if both --cycles and --until are given."""
    if until is not None and cycles is not None:
        raise UsageError(
            "give either --cycles or --until",
            id=ErrorId.ONE_OF_OPTIONS_NEEDED,
            hint="--cycles 20, or --until 0.05 for a bound of 5% of cuts.",
        )


def _refuse_for_clusters(
    lab: LabSpec,
    spec: ClusterSpec,
    *,
    of_drive: tuple[str, ...],
) -> None:
    """Raise UsageError for a cluster that no lab can be, and flags it cannot have."""
    require_possible(lab, spec)
    if of_drive:
        raise UsageError(
            f"several servers cannot be run with {', '.join(of_drive)}",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave it out.",
        )


def _refuse_for_copies(given: Mapping[str, bool]) -> None:
    """Raise UsageError for flags that were given and are of no use with --restore."""
    flags = [flag for flag, is_given in given.items() if is_given]
    if flags:
        raise UsageError(
            f"--restore cannot be used with {', '.join(flags)}",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave one of them out: a copy of one server is judged, and no cut.",
        )


@command.command()
@grouped
@option(
    "--cycles",
    type=click.IntRange(1),
    metavar="N",
    help="How many cuts to make, or copies to restore (--restore). Default: 1.",
)
@shared.until()
@option(
    "--control",
    is_flag=True,
    help="First run a cycle with sessions that are acknowledged too early, which must "
    "lose rows. Several servers: on a cluster of its own, without any fault; not below "
    "Patroni, and not for all of Group Replication.",
)
@option(
    "--restore",
    type=click.Choice([name.value for name in MethodName]),
    help="Restore a copy of the server on another port, and judge the rows there. "
    "Taken under load, without a cut: base-backup (pg_basebackup), mariadb-backup, "
    "clone (MySQL's plugin), dump (pg_dump or mariadb-dump), files (cp of PostgreSQL's "
    "files while it writes, which loses commits), drives (all virtual drives at one "
    "moment, as a snapshot of volumes), drives-apart (with --log-drive: one after the "
    "other, which is no valid copy). Shipped until the cut: archive (PostgreSQL's "
    "archive_command), receiver (pg_receivewal --synchronous), pgbackrest.",
)
@option(
    "--keep-image",
    is_flag=True,
    help="Keep the drive as the cut left it, before any recovery, in the folder of "
    "each run that does not pass.",
)
@shared.runs()
@shared.as_json()
def run(
    server: ServerOptions,
    storage: StorageOptions,
    load: WorkloadOptions,
    second: TwiceOptions,
    several: ClusterOptions,
    cycles: int | None,
    until: float | None,
    control: bool,
    restore: str | None,
    keep_image: bool,
    runs: Path,
    as_json: bool,
) -> None:
    """Run cycles in a lab of its own, which ends with them.

    Exits with the worst verdict of the cycles.
    """
    _require_one_goal(cycles, until)
    if restore is not None:
        _refuse_for_copies(
            {
                "--until": until is not None,
                "--control": control,
                "--keep-image": keep_image,
                "--twice": second.twice,
                "--nodes": several.nodes > 1,
            }
        )
    needed = None if until is None else compute_cuts_needed(round(until * PPM))
    count = cycles or 1 if needed is None else needed + _SPARE_CYCLES
    seed = draw_seed(server.seed)
    of_drive = ("--keep-image",) if keep_image else ()
    lab = make_lab_spec(server, storage, seed, *of_drive)
    cluster = several.spec()
    if cluster is not None:
        _refuse_for_clusters(lab, cluster, of_drive=of_drive)
    workload = load.apply_to_workload(
        adapt_workload_to_lab(workload_file.load(load.workload))
    )
    outcomes: list[Outcome] = []
    with make_progress(make_progress_console(), live=not as_json) as view:
        if cluster is not None:
            each = run_cluster_cycles(
                *(lab, cluster, workload, seed, count, view, runs),
                control=control,
                twice=second.twice,
            )
        elif restore is not None:
            each = run_restore_cycles(lab, restore, workload, seed, count, view, runs)
        else:
            each = run_lab_cycles(
                *(lab, workload, seed, count, view, runs),
                control=control,
                keep_image=keep_image,
                twice=second.twice,
            )
        for outcome in each if needed is None else stop_at_first_loss(each, needed):
            outcomes.append(outcome)
            if outcome.manifest.control:
                continue  # reported when it ended
            view.line(outcome.verdict.value, headline(outcome.result))
    _end_with(lab, outcomes, as_json=as_json)


def _end_with(lab: LabSpec, outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """Print the outcomes of all cycles; exit with the worst verdict."""
    controls = [outcome.result for outcome in outcomes if outcome.manifest.control]
    real = [outcome for outcome in outcomes if not outcome.manifest.control]
    results = [outcome.result for outcome in real]
    verdict = find_worst(outcome.verdict for outcome in real or outcomes[-1:])
    code = output.EXIT_CODES[verdict]
    with output.exit_if_unprintable(code):
        if as_json:
            spec, proven = lab.to_values(), tally(*results).statistics
            found = LabResult(verdict, spec, proven, tuple(controls), tuple(results))
            output.print_json(to_values(found))
        elif len(results) > 1 and all(result.copy for result in results):
            make_console().print(draw_copies(results))
        elif len(results) > 1:
            make_console().print(draw_cycles(results, controls))
        else:
            make_console().print(verdict_report((results or controls)[-1]))
    sys.exit(code)


@command.command()
@grouped
@option(
    "--name", default="", metavar="NAME", help="A name for the lab. Default: random."
)
@shared.as_json()
def up(
    server: ServerOptions, storage: StorageOptions, name: str, as_json: bool
) -> None:
    """Start a lab that stays up, and print how to use it."""
    wanted = make_lab_spec(server, storage, draw_seed(server.seed))
    folder = _DISK_FOLDER / f"dbcheck-lab-{secrets.token_hex(4)}"
    lab = Lab.start(wanted, folder, keep=True, name=name)
    dbcheck = _find_own_command()
    use = {
        "name": lab.name,
        "target": lab.target_url,
        "witness": lab.witness_url,
        "identity": str(lab.identity_file),
        "known_hosts": str(lab.known_hosts),
        "power": f"lab:{lab.name}",
        "password_command": f"{dbcheck} lab password {lab.name}",
    }
    if as_json:
        output.print_json(use)
        return
    say(f"lab {lab.name} is up: {describe_lab(wanted)}", "")
    say("Run a cycle on it, as often as you like:", "")
    given = ("target", "password_command", "witness", "identity", "known_hosts")
    command = [f"  {dbcheck} run"]
    command += [
        f"--{option.replace('_', '-')} {shlex.quote(use[option])}"
        for option in (*given, "power")
    ]
    say(*" \\\n    ".join(command).split("\n"))
    say("", "End it:", "", f"  {dbcheck} lab down {lab.name}")


@command.command()
def inventory() -> None:
    """Print the labs that are up as an inventory.

    One that starts or ends just now, or does not answer, is left out.
    """
    hosts = {}
    for name in labs.list_persistent_labs():
        try:
            hosts[name] = describe_as_host(Lab.find(name))
        except LabError as error:
            say(f"lab {name} is left out: {error}", err=True)
    # JSON is YAML, too.
    say(*json.dumps({"all": {"hosts": hosts}}, indent=2).split("\n"))


def describe_as_host(lab: Lab) -> dict[str, Any]:
    """Return a lab as the variables of a host in an inventory."""
    return {
        "dbcheck_target": lab.target_url,
        "dbcheck_password_command": processes.make_module_command(
            "dbcheck", "lab", "password", lab.name
        ),
        "dbcheck_witness": lab.witness_url,
        "dbcheck_witness_identity": str(lab.identity_file),
        "dbcheck_witness_known_hosts": str(lab.known_hosts),
        "dbcheck_ask_host": False,  # it is reached as the lab describes
        "dbcheck_power": "lab",
        "dbcheck_power_lab": lab.name,
        "dbcheck_power_scope": lab.spec.power_scope,
        "dbcheck_wait_s": 120,
    }


def _find_own_command() -> str:
    """Return the shell command that runs this installation of dbcheck."""
    script = Path(processes.PYTHON).with_name("dbcheck")
    in_path = shutil.which("dbcheck")
    if in_path and script.exists() and Path(in_path).samefile(script):
        return "dbcheck"
    if script.exists():
        return shlex.quote(str(script))
    return shlex.join(processes.make_module_command("dbcheck"))


@command.command()
@click.argument("name")
def password(name: str) -> None:
    """Print the password of a lab's server, for --password-command."""
    say(Lab.find(name).password)


@command.command()
@click.argument("name", required=False)
def down(name: str | None) -> None:
    """End the lab NAME, or all that are up.

    The leftovers of dead labs are removed, too.
    """
    held = [] if name else labs.list_attached_labs()
    names = [name] if name else labs.list_persistent_labs()
    for one in held:
        say(f"lab {one} ends with the command that runs it")
    for one in names:
        if labs.down(one):
            say(f"lab {one} is down")
        else:
            say(f"lab {one} was dead; its leftovers were removed")
    if not held and not names:
        say("no lab is running")


command.add_command(explore)
command.add_command(fetch)
command.add_command(log_writes)
