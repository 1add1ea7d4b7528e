"""The other side: pgbench and sysbench, with the statement that dbcheck sends."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url

from dbcheck.lab.lab import Lab
from tools.bench.speed import Speed, cpu_s

_PGBENCH = """\\set s random(1, 1000000)
insert into dbcheck.ledger (epoch, session, seq, part, payload, checksum)
values (1, :client_id, :s, 0, decode(repeat('ab', 100), 'hex'), 1) returning id;
"""

_SYSBENCH = """
function thread_init()
  con = sysbench.sql.driver():connect()
  stmt = con:prepare("insert into ledger (epoch, session, seq, part, payload,"
    .. " checksum) values (1, 1, ?, 0, ?, 1)")
  seq = stmt:bind_create(sysbench.sql.type.BIGINT)
  payload = stmt:bind_create(sysbench.sql.type.CHAR, 100)
  stmt:bind_param(seq, payload)
  payload:set(string.rep("x", 100))
end
function event()
  seq:set(sysbench.rand.uniform(1, 1000000))
  stmt:execute()
end
"""

_THREADS_MAX = 8  # of pgbench; sysbench has one for each connection


@dataclass(frozen=True)
class Peer:
    """A tool, the program it needs, and how to get commits/s from it."""

    name: str
    program: str
    run: Callable[[Lab, int, float], Speed]


def _pgbench(lab: Lab, connections: int, seconds: float) -> Speed:
    to = make_url(lab.target_url)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(_PGBENCH)
        script.flush()
        words = ["pgbench", "-n", "-M", "prepared", "-f", script.name]
        threads = min(connections, _THREADS_MAX, os.cpu_count() or 1)
        words += ["-c", str(connections), "-j", str(threads)]
        words += ["-T", str(max(1, round(seconds))), "-h", str(to.host)]
        words += ["-p", str(to.port), "-U", str(to.username), str(to.database)]
        environment = os.environ | {"PGPASSWORD": lab.password}
        return _rate(words, r"processed: (\d+).*tps = ([0-9.]+)", environment)


def _sysbench(lab: Lab, connections: int, seconds: float) -> Speed:
    to = make_url(lab.target_url)
    with tempfile.TemporaryDirectory() as folder:
        script, settings = Path(folder) / "insert.lua", Path(folder) / "sysbench.cfg"
        script.write_text(_SYSBENCH)
        settings.touch(mode=0o600)
        settings.write_text(f"mysql-password={lab.password}\n")
        words = ["sysbench", f"--config-file={settings}", str(script)]
        words += [f"--mysql-host={to.host}", f"--mysql-port={to.port}"]
        words += [f"--mysql-user={to.username}", f"--mysql-db={to.database}"]
        words += [f"--threads={connections}", f"--time={max(1, round(seconds))}"]
        return _rate([*words, "run"], r"queries: +(\d+) +\(([0-9.]+) per", os.environ)


def _rate(words: list[str], pattern: str, environment: Mapping[str, str]) -> Speed:
    before_s = cpu_s(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False
    )
    spent_s = cpu_s(resource.RUSAGE_CHILDREN) - before_s
    found = re.search(pattern, done.stdout, re.DOTALL)
    if done.returncode or not found:
        raise SystemExit(f"{words[0]} failed: {done.stdout}{done.stderr}")
    return Speed(float(found[2]), spent_s / int(found[1]) * 1e6)


PEERS = {
    "postgresql": Peer("pgbench -M prepared", "pgbench", _pgbench),
    "mariadb": Peer("sysbench prepared", "sysbench", _sysbench),
}


def missing(engine: str) -> list[str]:
    """Return the peer's program if it is not installed."""
    program = PEERS[engine].program
    return [] if shutil.which(program) else [f"{program} is not installed"]
