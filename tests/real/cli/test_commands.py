"""The commands as people and machines use them, in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host.folder import BESIDE, MARKER, Folder
from dbcheck.cli.lab import describe_as_host
from dbcheck.hosts.host import open_host
from dbcheck.judge.item import ItemId
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from tests.kit.canaries import is_free
from tests.kit.lab_access import connect
from tests.kit.rigs import LOADS_S
from tests.kit.users import DBCHECK, User, said_until, user_of
from tests.kit.users import user as user
from tests.kit.waiting import wait_until
from tests.kit.witnesses import is_agent
from tests.runs import make


@pytest.fixture(params=["honest", "lying"])
def drive_user(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[User]:
    """A user whose lab has a drive."""
    drive = DriveSpec(personality=request.param, destage_age_s=0.5)
    with Lab.start(LabSpec("postgresql", drive=drive), tmp_path / "lab") as lab:
        yield User(lab, tmp_path)


@user_of("postgresql")
def test_a_run_from_start_to_verdict_and_what_can_be_asked_of_it(user: User) -> None:
    for load_s in LOADS_S:
        user.workload(load_s)
        result = user.json("run", *user.rig, code=0)
        if result["confirmed"] > 100:
            break
    assert result["verdict"] == "PASS"
    assert result["confirmed"] == result["kept"] > 100
    run, folder = result["run"], result["folder"]

    again = user.json("reconcile", folder, "--offline", code=0)
    assert again["confirmed"] == result["confirmed"]
    for one in (result, again):  # every PASS says what it bounds
        assert one["statistics"]["loss_ppm_max"] == 950_000
        assert "one pass proves almost nothing" in one["statistics"]["sentence"]
    assert "PASS" in user.run("reconcile", folder, "--offline", code=0)

    checked = user.json("witness", "check", *user.witness, code=0)
    assert 0 < checked["fsync_ms"]["p50"] <= checked["fsync_ms"]["max"]
    for where in ([run, *user.witness], [folder]):
        verified = user.json("witness", "verify", *where, code=0)
        assert verified["intact"]
        assert sum(log["acks"] for log in verified["logs"]) == result["confirmed"]
        lines = user.run("witness", "show", *where, code=0).splitlines()
        acks = [line for line in lines if "row_id" in json.loads(line)]
        assert len(acks) == result["confirmed"]

    (line,) = user.run("witness", "show", *user.witness, code=0).splitlines()
    assert line.startswith(f"{run}  ") and user.lab.target_url in line
    for words, code in (
        (["reconcile", folder, "--offline"], 4),
        (["reconcile", folder, "--offline", "--json"], 4),
        (["witness", "show", folder], 4),
    ):
        assert unread(user, *words) == (code, "")
    with Path("/dev/full").open("wb") as full:
        client = user.start("reconcile", folder, "--offline", stdout=full)
        _, said = client.communicate(timeout=60)
    assert client.returncode == 4
    assert said == "dbcheck: the result cannot be printed: No space left on device\n"

    log = user.folder / folder / "acks.log"
    sound = log.read_bytes()
    content = bytearray(sound)
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    damaged = user.json("witness", "verify", folder, code=1)
    assert "byte" in damaged["logs"][0]["damage"]
    log.write_bytes(sound[:-1])  # as if the last frame had never been stored
    damaged = user.json("witness", "verify", folder, code=1)
    assert "frames were confirmed" in damaged["logs"][0]["damage"]

    cleaned = ("clean", "--target", user.lab.target_url)
    assert "dropped" in user.run(*cleaned, code=0)
    assert "has no tables of dbcheck's" in user.run(*cleaned, code=0)
    user.run("clean", *user.witness, "--run", run, code=0)
    user.run("witness", "verify", run, *user.witness, code=4)


@pytest.mark.wide
@pytest.mark.root
def test_the_client_killed_in_mid_run_is_judged_from_the_witness_alone(
    drive_user: User,
) -> None:
    """It dies before the cut: a loss is a loss, but no loss is no PASS."""
    user = drive_user
    user.workload(600)
    client = user.start("run", *user.rig)
    runs = user.folder / "runs"
    wait_until(lambda: acks_logged(user) > 2000, "acks on the witness")
    switch = user.lab.switch()
    client.kill()
    switch.cut()  # before the drive writes out by itself what it holds
    client.communicate()
    (run,) = runs.iterdir()
    assert not (run / "load.json").exists()
    switch.restore()
    elsewhere = ["--runs", str(user.folder / "elsewhere")]
    words = ["--run", run.name, "--target", user.lab.target_url, *elsewhere]
    lies = user.lab.spec.drive.personality == "lying"
    result = user.json("reconcile", *user.witness, *words, code=1 if lies else 3)
    assert result["confirmed"] > 2000
    if lies:
        assert result["losses"].keys() <= {"missing-tail", "missing-hole"}
        assert sum(result["losses"].values()) == result["confirmed"] - result["kept"]
    else:
        assert result["kept"] == result["confirmed"]
        assert "was lost before the cut" in result["reasons"][0]


@pytest.mark.wide
@pytest.mark.root
def test_the_client_killed_after_the_cut_is_judged_from_the_witness_alone(
    drive_user: User,
) -> None:
    """It holds all of the load; a PASS also needs the host that was asked before it."""
    user = drive_user
    first = user.json("run", *user.rig, code=expected_code(user))
    words = ["--run", first["run"], "--target", user.lab.target_url]
    elsewhere = ["--runs", str(user.folder / "elsewhere")]
    lies = user.lab.spec.drive.personality == "lying"
    again = user.json(
        "reconcile", *user.witness, *words, *elsewhere, code=1 if lies else 3
    )
    for name in ("confirmed", "kept", "recovered", "losses", "ranges"):
        assert again[name] == first[name]
    if not lies:
        assert len(again["reasons"]) == 1
        status = {one["item"]: one["status"] for one in again["evidence"]}
        assert status[ItemId.HOST_ASKED_AGAIN.value] == "not observable"


@user_of("postgresql")
def test_a_run_that_is_not_judged_is_not_spoilt_by_another(user: User) -> None:
    """Its client is lost behind the cut; the next run names it, and touches nothing.

    A client with folders of its own learns of it from the witness.
    """
    with user.start("run", *user.rig) as client:
        said_until(client, "restore")
        client.kill()
        client.communicate()
    (left,) = (user.folder / "runs").iterdir()
    user.lab.switch().restore()
    elsewhere = ("--runs", str(user.folder / "elsewhere"))
    commands = []
    for more in ((), elsewhere):
        with user.start("run", *user.rig, *more) as refused:
            _, said = refused.communicate(timeout=60)
        assert refused.returncode == 2, said
        commands += re.findall(r"dbcheck (reconcile .*?)(?:\. |, )", said)
    assert list((user.folder / "runs").iterdir()) == [left]
    assert not (user.folder / "elsewhere").exists()
    in_folder, from_witness = map(shlex.split, commands)
    assert {left.name, user.lab.target_url} <= set(from_witness)
    with user.start(*in_folder, *user.witness[2:]) as again:
        again.communicate(timeout=60)
    assert again.returncode in (0, 3)  # what the lost client saw of the end may lack
    user.run("run", *user.rig, *elsewhere, code=0)


@user_of("postgresql")
def test_rows_that_are_missing_after_the_client_was_lost_are_a_loss(user: User) -> None:
    """No record of the client's contradicts that: it lacks them all."""
    user.workload(600)
    with user.start("run", *user.rig) as client:
        wait_until(lambda: acks_logged(user) > 200, "acks on the witness")
        client.kill()
        user.lab.switch().cut()
        client.communicate()
    (run,) = (user.folder / "runs").iterdir()
    user.lab.switch().restore()
    server = connect(user.lab.target_url, user.lab.password)
    with contextlib.closing(server), server.cursor() as cursor:
        cursor.execute(
            "delete from dbcheck.ledger where id in"
            " (select id from dbcheck.ledger where session > 0 order by id limit 3)"
        )
    shutil.move(run, user.folder / "lost")
    words = ["--run", run.name, "--target", user.lab.target_url]
    result = user.json("reconcile", *user.witness, *words, code=1)
    assert result["verdict"] == "FAIL"
    assert sum(result["losses"].values()) == 3
    assert result["confirmed"] - result["kept"] == 3


@user_of("postgresql")
def test_an_interrupted_run_says_how_to_go_on(user: User) -> None:
    user.workload(600)
    client = user.start("run", *user.rig)
    wait_until(lambda: acks_logged(user) > 100, "acks on the witness")
    client.send_signal(signal.SIGINT)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 4
    assert "Traceback" not in said
    assert "nothing was cut" in said
    said, _, clean = said.partition("clean up")
    words = shlex.split(clean.partition("this removes both: ")[2])
    command = shlex.split(said.partition("anything else writes to it, run: ")[2])
    command.append("dbcheck:")
    (run,) = (user.folder / "runs").iterdir()
    switch = user.lab.switch()
    switch.cut()
    switch.restore()
    elsewhere = user.lab.target_url.replace("/postgres", "/template1")
    client = user.start(*reconcile_of(command), "--target", elsewhere)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 2, said
    assert "is not the server of run" in said
    result = user.json(*reconcile_of(command), code=3)
    assert result["kept"] == result["confirmed"] > 100
    # Refused as long as an agent of the interrupted client holds the log.
    end = words.index("--run") + 2
    assert (*words[:2], words[end - 1]) == ("dbcheck", "clean", run.name)
    said = user.run(*words[1:end], code=0)
    assert "dropped dbcheck.ledger" in said and f"removed run {run.name}" in said


@user_of("postgresql")
def test_what_a_killed_client_left_is_cleaned(user: User) -> None:
    user.workload(600)
    client = user.start("run", *user.rig)
    wait_until(lambda: acks_logged(user) > 100, "acks on the witness")
    client.kill()
    client.communicate(timeout=60)
    (marker,) = user.folder.glob(f"lab/**/{BESIDE}/{MARKER}")
    folder = marker.parent
    wait_until(lambda: is_free(folder), "the agent has ended")
    hosts = {"hosts": {user.lab.name: describe_as_host(user.lab)}}
    (user.folder / "hosts.yml").write_text(json.dumps({"all": hosts}))
    words = ("clean", user.lab.name, "--inventory", "hosts.yml")
    with contextlib.closing(Folder(str(folder))) as running:
        running.take()
        client = user.start(*words)
        out, said = client.communicate(timeout=60)
        assert client.returncode == 4, said
        assert "dropped" in out
        assert "canaries are writing in /" in said
        assert "the run that uses them" in said
    out = user.run(*words, code=0)
    assert "removed the canaries in /" in out
    assert not folder.exists()
    assert "no canaries found on ssh://" in user.run(*words, code=0)


@pytest.mark.wide_with("postgresql", "mysql")
def test_canaries_are_found_where_the_server_says_that_its_data_are(
    server: DatabaseServer, engine: Engine, tmp_path: Path
) -> None:
    engine.prepare((LEDGER,))
    with contextlib.closing(open_host("local:")) as host:
        canaries = host.start_canaries(str(server.data))
        canaries.stop()
    environment = os.environ | {"DBCHECK_PASSWORD": server.password}
    for url, code, said in (
        ("ssh://dbcheck@127.0.0.1:1", 4, "dropped"),  # nobody answers there
        ("local:", 0, f"removed the canaries in {canaries.folder} from this machine"),
        ("local:", 0, "no canaries found on this machine"),
    ):
        done = subprocess.run(
            (*DBCHECK, "clean", "--target", server.url, "--target-host", url),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        assert said in done.stdout
        assert "Traceback" not in done.stderr
    assert not Path(canaries.folder).exists()


@pytest.mark.wide_with("postgresql", "mysql")
def test_nothing_is_dropped_while_the_witness_cannot_be_asked(
    server: DatabaseServer, engine: Engine, tmp_path: Path
) -> None:
    """It may know a run that needs these tables, and the way without it is named."""
    engine.prepare((LEDGER,))
    words = (*DBCHECK, "clean", "--target", server.url)
    environment = os.environ | {"DBCHECK_PASSWORD": server.password}
    for flags, code, dropped in (
        (("--witness", "ssh://root@127.0.0.1:1/x"), 4, False),  # nobody answers there
        ((), 0, True),
    ):
        done = subprocess.run(
            (*words, *flags),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        assert ("dropped" in done.stdout) is dropped
        told = "dbcheck clean --target URL asks no witness"
        assert (told in " ".join(done.stderr.split())) is not dropped


def reconcile_of(command: list[str]) -> list[str]:
    """Return the words of the command that a user was told, without what follows."""
    assert command[:2] == ["dbcheck", "reconcile"]
    return command[1 : command.index("dbcheck:", 1)]


def unread(user: User, *words: str) -> tuple[int, str]:
    """Return the exit code and the errors of a command whose output nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        client = user.start(*words, stdout=pipe)
        _, said = client.communicate(timeout=60)
    return client.returncode, said


@user_of("mariadb")
def test_a_key_that_is_none_is_named(user: User) -> None:
    known = ["--known-hosts", str(user.lab.known_hosts)]
    for identity, said in (
        ("/nowhere/key", "cannot read the private key /nowhere/key: No such file"),
        (str(user.lab.known_hosts), "Name the file of the private key"),
    ):
        client = user.start(
            *("witness", "check", "--witness", user.lab.witness_url),
            *(*known, "--identity", identity),
        )
        _, err = client.communicate(timeout=60)
        assert client.returncode == 4
        assert said in err


def test_memory_is_no_witness_also_when_it_is_only_checked() -> None:
    if "tmpfs" not in {fs for _, at, fs in mounts() if at == "/dev/shm"}:
        pytest.skip("needs a tmpfs at /dev/shm")
    words = ("witness", "check", "--witness", "file:/dev/shm/dbcheck-test")
    try:
        done = subprocess.run((*DBCHECK, *words), capture_output=True, text=True)
    finally:
        shutil.rmtree("/dev/shm/dbcheck-test", ignore_errors=True)
    assert done.returncode == 4
    assert "which is memory" in done.stderr


def mounts() -> list[list[str]]:
    return [line.split()[:3] for line in Path("/proc/mounts").read_text().splitlines()]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("user", "processes"), [("postgresql", "1"), ("mariadb", "2")], indirect=["user"]
)
def test_a_second_interrupt_waits_no_longer_for_a_witness_that_lags(
    user: User, processes: str
) -> None:
    """It was told of what it waits for; what was confirmed stays confirmed."""
    user.workload(600)
    client = user.start("run", *user.rig, "--processes", processes)
    agents: list[int] = []
    try:
        wait_until(lambda: acks_logged(user) > 100, "acks on the witness", 60)
        agents += log_keepers(user)
        signal_all(agents, signal.SIGSTOP)
        client.send_signal(signal.SIGINT)
        assert client.stderr is not None
        said = ""
        while "Ctrl-C again" not in said:
            line = client.stderr.readline()
            assert line, said
            said += line
        assert client.poll() is None
        client.send_signal(signal.SIGINT)
        _, rest = client.communicate(timeout=100)
        # A client that waits for its agents to end kills them at last.
        assert log_keepers(user) == agents
    finally:
        signal_all(agents, signal.SIGCONT)
        client.kill()
        client.communicate()
    assert client.returncode == 4
    assert "Traceback" not in rest
    assert "dbcheck reconcile runs/" in rest
    (run,) = (user.folder / "runs").iterdir()
    switch = user.lab.switch()
    switch.cut()
    switch.restore()
    result = user.json("reconcile", f"runs/{run.name}", *user.witness, code=3)
    assert result["kept"] == result["confirmed"] > 100
    assert result["losses"] == {}


def log_keepers(user: User) -> list[int]:
    """Return the agents that keep a log on the lab's witness."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            opened = [os.readlink(link) for link in process.joinpath("fd").iterdir()]
            if any(path.startswith(f"{user.folder}/lab/witness/") for path in opened):
                found.append(int(process.name))
    return [pid for pid in found if is_agent(pid)]


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


@pytest.mark.wide_with("600.0")
@pytest.mark.parametrize(
    ("off_s", "code", "verdict"), [(1.0, 0, "PASS"), (600.0, 3, "INCONCLUSIVE")]
)
@user_of("postgresql")
def test_a_human_is_told_when_to_cut(
    user: User, off_s: float, code: int, verdict: str
) -> None:
    """The human is the test; each restores after the same few seconds."""
    client = user.start_by_hand(off_s=off_s)
    said_until(client, "NOW")
    assert "no reply for 5 s" in user.cut_by_hand(client)
    out, err = client.communicate(timeout=60)
    assert client.returncode == code, err
    result = json.loads(out)
    assert result["verdict"] == verdict
    assert result["losses"] == {}
    if verdict == "INCONCLUSIVE":
        assert "the server answered again" in result["reasons"][0]


@user_of("postgresql")
def test_a_witness_on_the_targets_host_is_refused(user: User) -> None:
    words = ["run", *user.rig]
    words[words.index("--power") + 1] = "manual"
    client = user.start(*words)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 2
    assert "on the target's own host" in said
    assert not (user.folder / "runs").exists()
    client = user.start(
        *("run", "--target", user.lab.target_url, "--witness", f"file:{user.folder}/w")
    )
    _, said = client.communicate(timeout=60)
    assert client.returncode == 2
    assert "on the target's own host" in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        pytest.param(["run"], "--target", id="no target"),
        pytest.param(
            ["run", "--target", "postgresql://u:geheim@h/d", "--witness", "file:/w"],
            "password",
            id="a password in the URL",
        ),
        pytest.param(
            ["run", "--target", "oracle://u@h/d", "--witness", "file:/w"],
            "oracle",
            id="no such engine",
        ),
        pytest.param(
            ["run", "--target", "postgresql://u@h/d", "--witness", "ftp://h/w"],
            "ftp",
            id="no such witness",
        ),
        pytest.param(["reconcile"], "--run", id="nothing to reconcile"),
        pytest.param(["reconcile", "/nowhere"], "manifest.json", id="no run folder"),
        pytest.param(
            ["witness", "show", "x", "--witness", "file:/w"], "run id", id="id"
        ),
        pytest.param(["clean"], "--target", id="nothing to clean"),
        pytest.param(
            ["clean", "--target-host", "local:"],
            "--target-host needs --target",
            id="canaries of no server",
        ),
        pytest.param(["witness", "show"], "--witness", id="nothing to show"),
        pytest.param(["run", "--rate", "nan"], "not a number", id="no number"),
        pytest.param(["lab", "run", "--flush-ms", "nan"], "not a number", id="nan"),
        pytest.param(
            ["run", "--target", "postgresql://u@h/d", "--cut-command", "x"],
            "--cut-command needs --power exec",
            id="a command that nobody would run",
        ),
        pytest.param(
            [
                *("run", "--target", "postgresql://u@h/d", "--witness", "file:/w"),
                *("--power", "exec", "--cut-command", "x", "--power-class", "AC"),
            ],
            "--restore-command",
            id="a cut that could never pass",
        ),
        pytest.param(
            ["run", "db1", "--target", "postgresql://u@h/d"],
            "--target cannot be combined with the name db1",
            id="a name and flags",
        ),
        pytest.param(
            ["matrix", "--engine", "mariadb", "--sessions", "0"],
            "0 is not in the range",
            id="no sessions",
        ),
        pytest.param(
            ["lab", "run", "--engine", "mariadb", "--setting", "x"],
            "NAME=VALUE",
            id="set",
        ),
    ],
)
def test_bad_usage_is_named_and_touches_nothing(
    words: list[str], named: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        (*DBCHECK, *words), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert named in done.stderr
    assert "geheim" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", ["--version", "demo --list", "init inventory.yml"])
def test_a_full_disk_takes_no_output_and_is_told(words: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = (*DBCHECK, *words.split())
        done = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 4
    said = b"dbcheck: the result cannot be printed: No space left on device"
    assert done.stderr.splitlines()[-1] == said  # after what `demo` lacks, if anything
    assert b"Traceback" not in done.stderr


NO_SERVER = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture
def with_run(tmp_path: Path) -> Path:
    """A folder with a run in it, to which a report adds files."""
    shutil.copytree(Path(make.__file__).parent / "postgresql-pass", tmp_path / "run")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "report run",
        "witness show run",
        f"audit --target {NO_SERVER}",
    ],
)
@pytest.mark.parametrize("stdout", ["closed", "unread"])
def test_output_that_nobody_gets_is_no_success(
    words: str, stdout: str, with_run: Path
) -> None:
    """Closed at the start, so that another file could get its number; or `| head`."""
    command = shlex.join((*DBCHECK, *words.split()))
    into = {"closed": f"exec {command} >&-", "unread": f"exec {command}"}[stdout]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            ("sh", "-c", into), cwd=with_run, stdout=pipe, stderr=subprocess.PIPE
        )
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [("--version", 0), ("nosuch", 2), ("report run", 0)]
)
def test_closed_stderr_changes_nothing(words: str, code: int, with_run: Path) -> None:
    command = shlex.join((*DBCHECK, *words.split()))
    done = subprocess.run(
        ("sh", "-c", f"exec {command} 2>&- <&-"), cwd=with_run, stdout=subprocess.PIPE
    )
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("nosuch", 2),
        ("reconcile nowhere", 2),
        ("witness verify 20260102-030405-a1b2c3 --witness file:.", 4),
    ],
)
def test_a_terminal_that_was_closed_changes_no_exit_code(
    words: str, code: int, tmp_path: Path
) -> None:
    """Python's own would be 1, which means FAIL."""
    terminal, end = os.openpty()
    os.close(terminal)
    with open(end, "wb") as closed:
        done = subprocess.run(
            (*DBCHECK, *words.split()),
            cwd=tmp_path,
            stdout=closed,
            stderr=closed,
        )
    assert done.returncode == code


def test_no_line_of_help_is_cut_short_on_a_small_terminal() -> None:
    environment = os.environ | {"COLUMNS": "80"}
    for group in ((), ("lab",), ("power",), ("witness",)):
        words = (*DBCHECK, *group, "--help")
        said = subprocess.run(words, capture_output=True, text=True, env=environment)
        listed = said.stdout.partition("Commands:")[2]
        assert listed.strip() and "..." not in listed


def test_what_is_dropped_is_never_left_to_the_environment(tmp_path: Path) -> None:
    environment = os.environ | {"DBCHECK_TARGET": "postgresql://u@localhost:1/d"}
    words = (*DBCHECK, "clean")
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "nothing to clean" in done.stderr


def expected_code(user: User) -> int:
    return 1 if user.lab.spec.drive.personality == "lying" else 0


def acks_logged(user: User) -> int:
    """Return how many acks the witness's logs can hold by their size."""
    folder = user.folder / "lab" / "witness"
    logs = list(folder.glob("*/acks*.log")) if folder.is_dir() else []
    return sum(log.stat().st_size for log in logs) // 100
