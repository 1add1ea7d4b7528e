"""Programs of the user's that commit, and those that do not keep to their part."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from dbcheck.cycle.cycle import run_cycle
from dbcheck.lab.process import Process
from dbcheck.lab.spec import LabSpec
from dbcheck.model.outage import Probed
from dbcheck.model.verdict import Verdict
from dbcheck.outage.process import Job, ProbeProcess
from tests.kit.client_programs import python_program, write_program_of_guide
from tests.kit.clusters import cluster_of, cycle
from tests.kit.frontends import need, port_of
from tests.kit.observer import observing, outage_of, record_of, require_agreement
from tests.kit.rigs import SEED, Bench, bench, quick, write_quick
from tests.kit.waiting import wait_until


@contextlib.contextmanager
def asked(*command: str) -> Iterator[ProbeProcess]:
    """Give a process that asks a program for commits; it has begun its tries."""
    process = ProbeProcess(Job({}, 1, command, "dbcheck"))
    try:
        process.await_start()
        process.begin()
        yield process
    finally:
        process.kill()


def shell(script: str) -> tuple[str, ...]:
    return "sh", "-c", script


def tries_of(process: ProbeProcess) -> Probed:
    answer = process.show()
    assert answer is not None, process.failure
    (probed,) = answer.probed
    return probed


def await_given_up(process: ProbeProcess) -> Probed:
    wait_until(lambda: bool(tries_of(process).given_up), "the end of the tries")
    return tries_of(process)


ANSWERS = 'while read -r key statement; do echo "$key acked"; done'


def test_each_answer_counts_as_what_it_says() -> None:
    script = """
    read -r key statement; echo "$key refused no route"
    read -r key statement; echo "$key refused"
    read -r key statement; echo "$key unknown it broke"
    read -r key statement; echo "$statement" >&2; echo "$key acked"
    exec sleep 600
    """
    with asked(*shell(script)) as process:
        wait_until(lambda: bool(tries_of(process).acks), "an ack")
        probed = tries_of(process)
        answer = process.end()
    assert (probed.refused, probed.unknown) == (2, 1)
    assert [ack.seq for ack in probed.acks] == [4]
    assert probed.target == "the program sh"
    assert answer is not None


def test_what_it_is_asked_for_is_one_insert() -> None:
    script = 'read -r key statement; echo "$statement" >&2; exit 3'
    with asked(*shell(script)) as process:
        given_up = await_given_up(process).given_up
    assert given_up == (
        "it ended with status 3; its last words: insert into dbcheck.outage (epoch,"
        " session, seq, part, payload, checksum) values (1, 0, 1, 0, '', 0)"
    )


# What it prints for the second commit, after a sound answer to the first one -> why it
# is asked no more.
MISBEHAVIOUR = {
    "garbage": ("echo hello", "it printed 'hello', which is no answer"),
    "control characters": (
        r"printf '\033[2J\0\n'",
        r"it printed '\x1b[2J\x00', which is no answer",
    ),
    "not UTF-8": (r"printf '\377\n'", "it printed '\ufffd', which is no answer"),
    "two answers": (
        'printf "$key acked\\n$key acked\\n"',
        "it printed more than one line for one commit",
    ),
    "the answer of another commit": (
        'echo "$first acked"',
        "it answered another commit than the one it was asked for",
    ),
    "another word": ('echo "$key committed"', "which is no answer"),
    "more than a word": ('echo "$key acked at last"', "which is no answer"),
    "an endless line": (
        "head -c 100000 /dev/zero; sleep 600",
        "it printed a line of more than 4096 B",
    ),
    "its death": ("kill -9 $$", "it ended with signal 9"),
    "its end": (
        "echo oops >&2; exit 7",
        "it ended with status 7; its last words: oops",
    ),
    "the end of its output": (
        "exec >&- 2>&-; sleep 600",
        "it closed its standard output",
    ),
}


@pytest.mark.parametrize("kind", MISBEHAVIOUR)
def test_a_program_that_does_not_keep_to_its_part_is_asked_no_more(kind: str) -> None:
    act, why = MISBEHAVIOUR[kind]
    script = f'read -r first _; echo "$first acked"; read -r key _; {act}; sleep 600'
    with asked(*shell(script)) as process:
        probed = await_given_up(process)
    assert why in probed.given_up
    assert [ack.seq for ack in probed.acks] == [1]


# Before a commit was asked for, or, on a busy machine, together with the next answer.
UNASKED = (
    "it printed something that nobody had asked for",
    "it printed more than one line for one commit",
)


def test_an_answer_before_its_question_is_none() -> None:
    script = 'read -r key _; echo "$key acked"; echo "$key acked"; exec sleep 600'
    with asked(*shell(script)) as process:
        probed = await_given_up(process)
    assert len(probed.acks) <= 1
    assert probed.given_up.endswith(UNASKED)


def test_a_program_that_floods_is_ended_and_takes_no_memory() -> None:
    for flood in ("exec yes", "yes >&2 & exec yes"):
        with asked(*shell(flood)) as process:
            probed = await_given_up(process)
            assert probed.given_up.endswith(UNASKED)
            assert probed.acks == ()


def test_a_program_that_says_nothing_is_waited_for_to_the_end() -> None:
    """Its driver may have no time limit; then neither has the application."""
    with asked(*shell("exec sleep 600")) as process:
        wait_until(lambda: tries_of(process).tried_us is not None, "a try")
        assert tries_of(process).hung == 0
        answer = process.end()
    assert answer is not None
    (probed,) = answer.probed
    assert (probed.hung, probed.acks, probed.given_up) == (1, (), "")
    assert probed.error.startswith("no answer to a commit in ")


def test_three_commits_that_broke_are_enough() -> None:
    with asked(*shell(ANSWERS.replace("acked", "unknown it broke"))) as process:
        probed = await_given_up(process)
    assert probed.unknown == 3
    assert "broke in 3 commits" in probed.given_up


def test_a_program_that_cannot_be_started_is_a_reason(tmp_path: Path) -> None:
    with asked(str(tmp_path / "absent")) as process:
        given_up = await_given_up(process).given_up
    assert given_up == "it cannot be started: No such file or directory"


FORKS = "sleep 600 & echo $$ $! > {file}; exec sleep 600"


def test_the_program_and_its_children_end_with_the_tries(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with asked(*shell(FORKS.format(file=file))) as process:
        pids = read_pids(file)
    wait_until(lambda: not any(map(Process.of, pids)), "the end of the program")
    assert process.pid == 0


@pytest.mark.parametrize("victim", ["client", "process"])
def test_the_program_ends_with_its_client(victim: str, tmp_path: Path) -> None:
    """One of the two is killed: the other one ends the program and its children."""
    file = tmp_path / "pids"
    source = (
        "import sys, time\n"
        "from dbcheck.outage.process import Job, ProbeProcess\n"
        "process = ProbeProcess(Job({}, 1, ('sh', '-c', sys.argv[1]), 'dbcheck'))\n"
        "process.await_start()\n"
        "process.begin()\n"
        "print(process.pid, flush=True)\n"
        "sys.stdin.readline()\n"
        "process.kill()\n"
        "sys.stdin.readline()\n"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", source, FORKS.format(file=file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    )
    with client:
        assert client.stdin is not None and client.stdout is not None
        pid = int(client.stdout.readline())
        pids = read_pids(file)
        if victim == "client":
            client.send_signal(signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
            client.stdin.write(b"\n")
            client.stdin.flush()
        wait_until(lambda: not any(map(Process.of, [pid, *pids])), "the program's end")
        client.kill()


def read_pids(file: Path) -> list[int]:
    wait_until(lambda: file.exists() and bool(file.read_text()), "the program's ids")
    return [int(word) for word in file.read_text().split()]


def test_a_secret_of_dbcheck_does_not_reach_it_or_come_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DBCHECK_PASSWORD", "hidden-one")
    monkeypatch.setenv("PGPASSWORD", "hidden-two")
    script = (
        "read -r key _;"
        ' echo "$key refused [$DBCHECK_PASSWORD$PGPASSWORD$OWN] hidden-two"; exec cat'
    )
    monkeypatch.setenv("OWN", "its-own")
    job = Job({}, 1, shell(script), "dbcheck", ("hidden-one", "hidden-two"))
    process = ProbeProcess(job)
    try:
        process.await_start()
        process.begin()
        wait_until(lambda: bool(tries_of(process).refused), "an answer")
        assert tries_of(process).error == "[its-own] ***"
    finally:
        process.kill()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("postgresql")
    with bench(LabSpec("postgresql", cut="process"), folder) as made:
        yield made


@pytest.fixture
def dsn(here: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_url(here.lab.target_url)
    login = f"host={url.host} port={url.port} dbname={url.database} user={url.username}"
    monkeypatch.setenv("APP_DSN", f"{login} password={here.lab.password}")


@pytest.mark.usefixtures("dsn")
def test_its_time_agrees_with_an_observer(here: Bench, tmp_path: Path) -> None:
    rig = dataclasses.replace(here.rig, client_command=python_program(tmp_path))
    with observing(here.lab) as seen:
        outcome = run_cycle(rig, quick(), SEED)
    require_agreement(outcome, seen)
    outage = outage_of(outcome)
    assert outage.by_clients
    assert outage.by == outage.addresses[0]
    assert outage.by.startswith("the program python")
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.usefixtures("dsn")
def test_one_that_acks_what_it_does_not_commit_measures_nothing(
    here: Bench, tmp_path: Path
) -> None:
    """Found before the load; and if it only begins after the cut, its acks are none."""
    (_, file) = python_program(tmp_path)
    source = Path(file).read_text()
    for changed in (
        source.replace("        link.commit()", "        link.rollback()"),
        source.replace(
            "        link.commit()",
            "        link.rollback() if done else link.commit(); done.append(1)",
        ).replace("def commit", "done = []\n\n\ndef commit"),
    ):
        assert changed != source
        Path(file).write_text(changed)
        rig = dataclasses.replace(here.rig, client_command=[sys.executable, file])
        outcome = run_cycle(rig, quick(), SEED + 1)
        outage = outage_of(outcome)
        assert outage.seconds is None
        assert outcome.verdict is Verdict.PASS, outcome.judgement
        if "done" in changed:
            assert record_of(outcome).lasting == []
            assert "commits that were answered after the cut lasted" in outage.why
        else:
            assert "its row was not on postgresql" in outage.why
            assert "time to recover is not measured" in here.said.text


JDBC = Path("/usr/share/java/postgresql.jar")  # of libpostgresql-jdbc-java


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Bench) -> list[str]:
    """The command of the guide's program in Java; it needs APP_URL."""
    need("java")
    if not JDBC.exists():
        pytest.skip("needs libpostgresql-jdbc-java")
    file = write_program_of_guide("java", tmp_path / "Commits.java")
    monkeypatch.setenv("APP_USER", make_url(here.lab.target_url).username or "")
    return ["java", "-cp", str(JDBC), str(file)]


@pytest.mark.wide
def test_pgjdbc_agrees_with_an_observer(
    here: Bench, commits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(here.lab.target_url)
    place = f"{url.host}:{url.port}/{url.database}"
    monkeypatch.setenv("APP_URL", f"jdbc:postgresql://{place}?targetServerType=primary")
    monkeypatch.setenv("APP_PASSWORD", here.lab.password)
    rig = dataclasses.replace(here.rig, client_command=commits)
    here.execute("drop table if exists observed")
    with observing(here.lab) as seen:
        outcome = run_cycle(rig, quick(), SEED + 2)
    require_agreement(outcome, seen)
    assert outage_of(outcome).by == "the program java"
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.wide
@pytest.mark.parametrize("recheck_s", [0, 10])
def test_pgjdbc_finds_the_new_writer_of_a_cluster_by_its_own_rules(
    recheck_s: int,
    commits: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It remembers for hostRecheckSeconds that a host was a standby."""
    with cluster_of(tmp_path / "cluster") as (cluster, rig):
        first = cluster.labs["node1"]
        hosts = ",".join(f"127.0.0.1:{port_of(lab)}" for lab in cluster.labs.values())
        monkeypatch.setenv(
            "APP_URL",
            f"jdbc:postgresql://{hosts}/{make_url(first.target_url).database}"
            f"?targetServerType=primary&hostRecheckSeconds={recheck_s}",
        )
        monkeypatch.setenv("APP_PASSWORD", first.password)
        rig = dataclasses.replace(rig, client_command=commits)
        with observing(*cluster.labs.values()) as seen:
            outcome = cycle(rig)
    outage, load = outage_of(outcome), outcome.load
    assert outage.seconds is not None, outage
    assert load is not None and load.last_ack_us is not None
    observed_s = (seen.gap()[1] - load.last_ack_us) / 1e6
    assert observed_s - 0.05 < outage.seconds < observed_s + recheck_s + 2
    assert not outage.not_lasting
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.wide
@pytest.mark.usefixtures("dsn")
def test_the_command_line_takes_such_a_program(here: Bench, tmp_path: Path) -> None:
    lab, workload = here.lab, write_quick(tmp_path)
    words = ["run", "--target", lab.target_url, "--power", f"lab:{lab.name}"]
    words += ["--witness", lab.witness_url, "--identity", str(lab.identity_file)]
    words += ["--known-hosts", str(lab.known_hosts), "--workload", str(workload)]
    words += ["--runs", str(tmp_path / "runs")]
    words += ["--client-command", shlex.join(python_program(tmp_path))]
    done = subprocess.run(
        [sys.executable, "-m", "dbcheck", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "DBCHECK_PASSWORD": lab.password},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "committed by the program python" in " ".join(done.stdout.split())
    assert lab.password not in done.stdout + done.stderr
