"""Every command line that the documents show runs, on labs that bear its hosts' names.

What a lab cannot stand in for is listed with the reason; it is parsed all the same
(tests/unit/project/test_reference.py).  Runs that would take long are made shorter.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dbcheck.cli import FAIL, INCONCLUSIVE, PASS
from tests.kit.documents import DOCUMENTS, ROOT, shown, words_of
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.lab_state import own_state as own_state

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600), pytest.mark.wide]
LABS = {"db1": "postgresql", "db2": "mariadb", "db3": "postgresql"}
# A line that matches is not run, for that reason.
LEFT_OUT = {
    "dbcheck demo": "real/cli/test_ci_job.py runs it",
    "dbcheck matrix --preset receipts": "real/audit/test_audit.py shows receipts",
    "dbcheck matrix --preset replication": "real/site/test_cluster.py has such rows",
    "dbcheck matrix --preset restore": "real/runner/test_matrix.py has such rows",
    "dbcheck reconcile runs/ID( --name db1)?$": "real/cycle/test_reconcile_run.py has"
    " such a run",
    "dbcheck lab fetch": "CI has fetched it",
    "dbcheck (run|campaign) orders": "real/kubernetes/test_pods_anew.py has such pods",
    "dbcheck (run|campaign) (pair|GROUP)": "real/site/test_cluster_command.py and"
    " real/campaign/test_campaign_cluster.py have such a group",
    "dbcheck run db1 --restore": "real/cli/test_run_restore_command.py has such"
    " programs",
    "dbcheck snapshot": "real/cli/test_snapshot_command.py has such programs",
    ".* --topology": "real/site/test_cluster_groups.py runs such a command",
    ".* --promoted-by": "real/site/test_cluster_patroni.py runs such a command",
    "dbcheck (report|bundle) runs/ID1 runs/ID2 runs/ID3": "real/cli/test_chosen_runs.py"
    " counts such runs",
    "dbcheck lab explore runs": "real/explore/test_explore_command.py has a folder",
    "dbcheck lab log-writes": "real/cli/test_log_writes_command.py has a recording",
    "dbcheck lab up": "it would stay up; the labs here are started so",
    "dbcheck lab down": "it ends the labs here, and is how they end",
    ".* --load-workers": "real/load/test_load_workers.py has workers",
}
# The labs are honest and durable, so `run` and `campaign` on them must pass.
WITH_VERDICTS = ("audit", "lab", "matrix", "probe")
ELSEWHERE = {
    "docs/guides/flush-settings.md": "real/project/test_guide_flush_settings.py",
    "docs/examples/README.md": "python -m tools.docs.examples",
    "docs/examples/fail.md": "python -m tools.docs.examples",
    "docs/guides/ci.md": "real/cli/test_ci_job.py",
}
NOT_A_LAB = (
    # A host, a switch or a service of the user's own.
    *("ssh://me@witness", "ssh://root@db1", "--power exec", "db.example.net"),
    *("--target URL", "/var/lib/node_exporter", "my.toml", "tcp://"),
)
SHORTER = {
    "--until 0.05": "--until 0.5",
    "--until 0.1": "--until 0.5",
    "--cuts 20": "--cuts 1",
    "golive db1": "golive db1 --cuts 1",
    "--cuts 5": "--cuts 1",
    "--cycles 5": "--cycles 1",
    "--cycles 9": "--cycles 1",
    "--cycles 8": "--cycles 1",
    "--commits 1000": "--commits 30",
    "--states 500": "--states 5",
    "--states 2000": "--states 5",
    "--load-s 3": "--load-s 1",
    "matrix --preset percona-2009": "matrix --preset percona-2009 --cuts 1",
}


def commands() -> Iterator[tuple[str, str]]:
    """Yield the document and each command line in it that a lab can stand in for."""
    seen = set()
    for document in DOCUMENTS:
        name = str(document.relative_to(ROOT))
        if name == "CHANGELOG.md" or name in ELSEWHERE:
            continue
        for one in shown(document.read_text("utf-8")):
            if one.is_whole and one.line not in seen and is_for_a_lab(one.line):
                seen.add(one.line)
                yield name, one.line


def is_for_a_lab(line: str) -> bool:
    return not any(re.match(pattern, line) for pattern in LEFT_OUT) and not any(
        part in line for part in NOT_A_LAB
    )


def allowed(line: str) -> tuple[int, ...]:
    """Return the exit codes of a line that did its work.

    Audits, probes and labs of other kinds may have any verdict; all else must succeed.
    """
    verb = words_of(line)[0]
    return (PASS, FAIL, INCONCLUSIVE) if verb in WITH_VERDICTS else (PASS,)


@dataclass
class Desk:
    """A folder in which somebody types what the documents show.

    made: what stands for each name of the documents.
    """

    folder: Path
    made: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run dbcheck; repeat a cut that showed nothing once, as the guides say."""
        done = self.once(*words)
        if words[0] == "run" and done.returncode == INCONCLUSIVE:
            done = self.once(*words)
        return done

    def once(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dbcheck", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )

    def typed(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a document, made shorter, with what its names stand for."""
        for long, short in SHORTER.items():
            line = line.replace(long, short)
        for name, real in sorted(self.made.items(), key=lambda pair: -len(pair[0])):
            line = re.sub(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])", real, line)
        words = [os.path.expanduser(word) for word in words_of(line)]
        if (
            words[0] in ("golive", "run", "campaign", "power")
            and "--resume" not in words
        ):
            words.append("--yes")
        return self.run(*words)

    def make_room(self, words: Sequence[str]) -> None:
        """Drop what a run left: the rows of all of them would fill the small drives."""
        for name in LABS.keys() & set(words):
            done = self.run("clean", name)
            assert done.returncode == 0, done.stderr

    def learn(self) -> None:
        """Find out what the newest runs, campaigns, matrices and bundles are called."""
        runs = sorted(self.folder.glob("runs/*/verdict.json"), key=os.path.getmtime)
        for name, run in zip(("runs/ID", "runs/ID1", "runs/ID2"), runs, strict=False):
            self.made[name] = f"runs/{run.parent.name}"
        campaigns = sorted(self.folder.glob("campaigns/*/campaign.json"))
        if campaigns:
            self.made["campaigns/ID"] = f"campaigns/{campaigns[0].parent.name}"
        for check in self.folder.glob("golive/*/golive.json"):
            self.made["golive/ID"] = f"golive/{check.parent.name}"
        for matrix in self.folder.glob("runs/matrix-*.json"):
            self.made["runs/matrix-ID.json"] = f"runs/{matrix.name}"
        for bundle in self.folder.glob("[0-9]*.dbcheck.tar"):
            self.made["ID.dbcheck.tar"] = bundle.name
        for signature in self.folder.glob("*.dbcheck.tar.sig"):
            self.made["ID.dbcheck.tar --allowed-signers"] = (
                f"{signature.stem} --allowed-signers"
            )


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Labs named as the documents name hosts, and all that comes before a command."""
    folder, home = tmp_path_factory.mktemp("desk"), tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        made = Desk(folder)
        try:
            prepare(made, home)
            yield made
        finally:
            made.run("lab", "down")


def prepare(desk: Desk, home: Path) -> None:
    """Start the labs; make a signing key, and runs to speak of."""
    key = home / ".ssh" / "id_ed25519"
    key.parent.mkdir(mode=0o700)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True
    )
    public = key.with_suffix(".pub").read_text()
    (desk.folder / "signers").write_text(f"ops@example.org {public}")
    for name, engine in LABS.items():
        done = desk.run("lab", "up", "--name", name, "--engine", engine)
        assert done.returncode == 0, done.stderr
    inventory = desk.folder / "inventory.yml"
    inventory.write_text(desk.run("lab", "inventory").stdout)
    inventory.chmod(0o600)
    for words in (
        ("run", "db1", "--yes"),
        ("run", "db1"),
        ("campaign", "db1", "--cuts", "1"),
        ("campaign", "db1", "--cuts", "1", "--folder", "campaigns/db1-before"),
        ("matrix", "db1", "--vary", "sessions=2", "--cuts", "1", "--yes"),
    ):
        done = desk.run(*words)
        assert done.returncode == PASS, (words, done.stdout, done.stderr)
        desk.make_room(words)
    desk.learn()
    run = desk.made["runs/ID"]
    assert desk.run("bundle", run, "--sign", str(key)).returncode == PASS
    desk.learn()


def test_every_command_line_of_the_documents_runs(desk: Desk) -> None:
    lines = list(commands())
    assert len(lines) > 30
    wrong = []
    for document, line in lines:
        target = desk.folder / "inventory.yml"
        kept = target.read_bytes()
        if line == "dbcheck init":
            target.unlink()
        done = desk.typed(line)
        target.write_bytes(kept)
        desk.make_room(words_of(line))
        if done.returncode not in allowed(line):
            wrong.append(
                f"{document}: {line}: {done.returncode}: {done.stderr[-1500:]}"
            )
        desk.learn()
    assert not wrong, "\n\n".join(wrong)


def test_what_is_left_out_is_still_there() -> None:
    """An exception that no document needs any more is removed."""
    found = [one.line for path in DOCUMENTS for one in shown(path.read_text("utf-8"))]
    for pattern in (*LEFT_OUT, *map(re.escape, (*NOT_A_LAB, *SHORTER))):
        assert any(re.search(pattern, line) for line in found), pattern
    for name in ELSEWHERE:
        assert (ROOT / name).is_file(), name


def test_a_line_that_cannot_run_is_found(desk: Desk) -> None:
    assert desk.typed("dbcheck audit db9").returncode not in (PASS, FAIL, INCONCLUSIVE)
    assert json.loads(desk.typed("dbcheck audit db1 --json").stdout)
    assert shutil.which("ssh-keygen")
