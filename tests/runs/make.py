"""Make stored runs, as root.

    python tests/runs/make.py tests/runs NAME ...

Each run becomes a folder NAME, unless it is made of another one (DERIVED), and a file
NAME.json, which holds the judgement of the version that made it ("then").  Where a
later version judges otherwise, add by hand the judgement of today ("today") and why
they differ ("why").

What names this machine is replaced before the digests are computed.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

TRIES = 12
BINARY_CHANCE = 6  # characters of a name; binary files hold shorter ones by chance
INSERTED = ("survivors-ledger", "survivors-fs")
RECORD = struct.Struct("<qqiqhqB")  # rows.survivors.RECORD
RECORD_BYTES = RECORD.size  # the last byte is the content's
COUNTS = (
    "confirmed",
    "kept",
    "recovered",
    "unconfirmed",
    "foreign",
    "earlier",
    "earlier_lost",
    "losses",
)
KEPT = re.compile(
    r"(manifest|load|restore|after)\.json|acks(-\d+)?\.log|survivors(-\w+)?\.bin|"
    r"different(-\w+)?\.jsonl"
)
LOG_CHARACTERS, LINE_CHARACTERS = 50_000, 300
# Where a lab and the MySQL server of the tests lie, and who runs them.
PATTERNS = {
    r"(/[\w.-]+)*/dbcheck/mysql/usr\b": "/usr",
    r"(/[\w.-]+)*/dbcheck-lab-\w{8}(/lab\b)?": "/lab",
    r"(/[\w.-]+)*/dbcheck-lab/lab-[0-9a-f]{8}": "/lab",
    r"ssh://[\w.-]+@": "ssh://witness@",
    # The network card's address at the end of a UUID of version 1 (RFC 9562).
    r"(-1[0-9a-f]{3}-[89ab][0-9a-f]{3}-)[0-9a-f]{12}\b": r"\g<1>000000000001",
}
# A checksum of the network card's address.
HIDDEN = {"server_uid": "server-uid"}


@dataclass(frozen=True)
class Recipe:
    """Runs that one `dbcheck lab run` makes.

    names:  of its runs, in their order.
    wanted: the verdict of the last; gone: "table" or "server", if that is not to come
            back from its cut.
    seen:   a row that a reader saw is to be gone.
    """

    names: tuple[str, ...]
    options: str
    wanted: str
    gone: str = ""
    seen: bool = False


LYING = "--drive lying"
RECIPES = (
    Recipe(
        ("postgresql-control", "postgresql-pass"),
        "--engine postgresql --control",
        "PASS",
    ),
    Recipe(("mariadb-control", "mariadb-pass"), "--engine mariadb --control", "PASS"),
    Recipe(("mysql-pass",), "--engine mysql", "PASS"),
    Recipe(("postgresql-lying",), f"--engine postgresql {LYING}", "FAIL"),
    Recipe(("mariadb-lying",), f"--engine mariadb {LYING}", "FAIL"),
    Recipe(("classic-pass",), "--engine postgresql --workload classic", "PASS"),
    Recipe(("classic-lying",), f"--engine mariadb --workload classic {LYING}", "FAIL"),
    Recipe(("registers-pass",), "--engine postgresql --workload registers", "PASS"),
    Recipe(
        ("registers-lying",), f"--engine mariadb --workload registers {LYING}", "FAIL"
    ),
    Recipe(("two-phase-pass",), "--engine postgresql --workload two-phase", "PASS"),
    Recipe(("orders-pass",), "--engine postgresql --workload order-entry", "PASS"),
    Recipe(
        ("seen-then-lost",),
        "--engine mariadb --workload readers --flush-ms 200",
        "PASS",
        seen=True,
    ),
    Recipe(("process",), "--engine postgresql --cut process", "PASS"),
    Recipe(("two-processes",), "--engine mariadb --processes 2", "PASS"),
    Recipe(
        ("missing-table",),
        f"--engine postgresql {LYING} --destage-s 0",
        "FAIL",
        gone="table",
    ),
    Recipe(
        ("unrecoverable",),
        f"--engine mysql {LYING} --kept-writes random",
        "FAIL",
        gone="server",
    ),
)


def main(out: Path, wanted: Sequence[str]) -> None:
    """Make the runs that are *wanted*, all if none is named."""
    out.mkdir(exist_ok=True)
    for recipe in RECIPES:
        if not wanted or set(wanted) & set(recipe.names):
            make(recipe, out)
    for name in DERIVED:
        if not wanted or name in wanted:
            with tempfile.TemporaryDirectory() as scratch:
                write_judgement(copied(out / name, Path(scratch, "run")), out / name)


def copied(place: Path, to: Path) -> Path:
    """Return a copy of the run at *place*, which may be made of another one."""
    origin, derive = DERIVED.get(place.name, (place.name, None))
    shutil.copytree(place.parent / origin, to)
    if derive is not None:
        derive(to)
    return to


def make(recipe: Recipe, out: Path) -> None:
    """Make the runs of *recipe*; try one seed after the other until they show it."""
    for seed in range(1, TRIES + 1):
        with tempfile.TemporaryDirectory() as scratch:
            command = ["lab", "run", *recipe.options.split(), "--seed", str(seed)]
            command += ["--rate", "60", "--sessions", "2", "--runs", scratch]
            dbcheck(*command, "--json")
            runs = sorted(Path(scratch).iterdir(), key=began_us)
            if not runs or not (runs[-1] / "after.json").is_file():
                continue
            after = read(runs[-1] / "after.json")
            back = of_node(after)["facts"]
            gone = "table" if after["missing"] else "" if back else "server"
            judged = judgement(runs[-1])
            verdict, seen = judged["verdict"], judged.get("seen", {}).get("lost", 0) > 0
            sys.stderr.write(
                f"{recipe.options}: seed {seed} {verdict} {gone=} {seen=}\n"
            )
            wanted = (recipe.wanted, recipe.gone, recipe.seen)
            right = (verdict, gone, seen) == wanted
            if right and len(runs) == len(recipe.names):
                for run, name in zip(runs, recipe.names, strict=True):
                    keep(run, out / name)
                return
    raise SystemExit(f"no seed up to {TRIES} shows {recipe}")


def of_node(record: dict[str, Any]) -> dict[str, Any]:
    """Return what *record* holds of its only node."""
    (node,) = record["nodes"].values()
    found: dict[str, Any] = node
    return found


def began_us(run: Path) -> int:
    """Return when a run began, on the client's clock."""
    return int(read(run / "manifest.json")["wall_us"])


def dbcheck(*arguments: str) -> str:
    """Run dbcheck; return what it wrote to standard output."""
    command = [sys.executable, "-P", "-m", "dbcheck", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        sys.stderr.write(done.stderr)
    return done.stdout


def keep(run: Path, place: Path) -> None:
    """Store *run* as *place*, and the judgement of the version that made it beside."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    names = literals(run)
    for path in sorted(run.iterdir()):
        if not KEPT.fullmatch(path.name):
            continue
        if path.suffix == ".json":
            write(place / path.name, shortened(redacted(read(path), names)))
        else:
            (place / path.name).write_bytes(path.read_bytes())
    require_redacted(place, names)
    write_judgement(place, place)


def shortened(values: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what a server's log repeats, if the log is long.

    MySQL dumps a damaged page a hundred times.
    """
    log = (of_node(values).get("host") or {}).get("log") or {}
    if len(log.get("text", "")) > LOG_CHARACTERS:
        lines: dict[str, str] = {}
        for line in log["text"].split("\n"):
            lines.setdefault(re.sub(r"^[-\d:T. Z]+", "", line), line[:LINE_CHARACTERS])
        log["text"] = "\n".join(lines.values())
    return values


def write_judgement(run: Path, place: Path) -> None:
    """Store beside *place* how dbcheck judges *run*."""
    then = {"then": judgement(run)}
    place.with_suffix(".json").write_text(json.dumps(then, indent=1) + "\n")


def judgement(run: Path) -> dict[str, Any]:
    """Return how dbcheck judges a copy of *run*, offline."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(run, Path(scratch, "run")))
        found = json.loads(dbcheck("reconcile", str(copy), "--offline", "--json"))
        return shown(found)


def shown(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is compared of a judgement as --json prints it: no sentences."""
    values = {
        "verdict": found["verdict"],
        **{name: found.get(name) for name in COUNTS},
        "evidence": [f"{each['item']}: {each['status']}" for each in found["evidence"]],
    }
    if seen := found.get("seen"):  # of a run in which somebody looked
        values["seen"] = {"rows": seen["rows"], "lost": seen["lost"]}
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


# ----------------------------------------------------------------------- redaction


def literals(run: Path) -> dict[str, str]:
    """Return what names this machine, and what stands in its place."""
    names = {
        socket.gethostname(): "db1",
        first_line("/etc/machine-id"): f"{1:032x}",
        first_line(
            "/proc/sys/kernel/random/boot_id"
        ): f"00000000-0000-4000-8000-{1:012}",
        str(Path.cwd()): "/cwd",
        str(Path.home()): "/home/user",
        f"{getpass.getuser()}@": "user@",
    }
    for record in ("manifest.json", "after.json"):
        host = of_node(read(run / record)).get("host") or {}
        addresses = (host.get("facts") or {}).get("addresses", ())
        for number, address in enumerate(sorted(addresses), 1):
            names.setdefault(address, f"198.51.100.{number}")  # RFC 5737
    names.pop("127.0.0.1", None)
    names.pop("::1", None)
    return {name: other for name, other in names.items() if name not in ("", other)}


def redacted(value: Any, names: Mapping[str, str]) -> Any:
    """Return *value* without what names this machine."""
    if isinstance(value, dict):
        pairs = ((key, HIDDEN.get(key, inner)) for key, inner in value.items())
        return {redacted(k, names): redacted(v, names) for k, v in pairs}
    if isinstance(value, list):
        return [redacted(inner, names) for inner in value]
    if isinstance(value, str):
        for pattern, other in PATTERNS.items():
            value = re.sub(pattern, other, value)
        for name in sorted(names, key=len, reverse=True):
            value = re.sub(as_word(name), names[name], value)
    return value


def as_word(name: str) -> str:
    """Return the pattern of a name that is no part of a longer one."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def require_redacted(run: Path, names: Mapping[str, str]) -> None:
    """End with an error if a file still names this machine."""
    for path in run.iterdir():
        text = path.read_bytes().decode("latin-1")
        for name in (*names, "/tmp", "/home", "/root", "/run"):
            if len(name) < BINARY_CHANCE and path.suffix != ".json":
                continue
            if re.search(as_word(name), text):
                raise SystemExit(f"{path} names {name}")


def first_line(path: str) -> str:
    """Return the first line of a file, "" if there is none."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


# --------------------------------------------------------------------- the records


def read(path: Path) -> dict[str, Any]:
    """Return the values of a record."""
    values: dict[str, Any] = json.loads(path.read_bytes())
    return values


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Store a record, with a digest that fits its values."""
    plain = {k: v for k, v in values.items() if k not in ("format", "sha256")}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    record = {"format": values["format"], "sha256": digest, **plain}
    path.write_text(json.dumps(record, indent=1))


def survivors_of(run: Path) -> Path:
    """Return the file of the inserted rows."""
    (path,) = [path for path in run.glob("survivors*.bin") if path.stem in INSERTED]
    return path


def write_survivors(run: Path, content: bytes) -> None:
    """Exchange the inserted rows that survived, and what after.json says of them."""
    path = survivors_of(run)
    path.write_bytes(content)
    after = read(run / "after.json")
    rows, digest = len(content) // RECORD_BYTES, hashlib.sha256(content).hexdigest()
    table = path.stem.partition("-")[2]
    after["survivors"][table] = {"rows": rows, "sha256": digest}
    write(run / "after.json", after)


# ------------------------------------------------------- runs that are made of others


def corrupt_row(run: Path) -> None:
    """Have the content of a row in the middle differ."""
    content = bytearray(survivors_of(run).read_bytes())
    middle = len(content) // RECORD_BYTES // 2
    content[middle * RECORD_BYTES + RECORD_BYTES - 1] = 1
    write_survivors(run, bytes(content))


def corrupt_earlier_row(run: Path) -> None:
    """Have the content of a row differ that an earlier cycle wrote."""

    def change(rows: list[Row], own: list[Row]) -> list[Row]:
        earlier = next(row for row in rows if row not in own)
        return [row._replace(content=1) if row is earlier else row for row in rows]

    change_table(run, "ledger", change)


def unidentified_server(run: Path) -> None:
    """Have nothing on record that names the data of the server before the cut."""
    manifest = read(run / "manifest.json")
    del of_node(manifest)["facts"]["identity"]["dbcheck.identity"]
    write(run / "manifest.json", manifest)


def missing_row(run: Path) -> None:
    """Take a row in the middle away."""
    content = survivors_of(run).read_bytes()
    at = len(content) // RECORD_BYTES // 2 * RECORD_BYTES
    write_survivors(run, content[:at] + content[at + RECORD_BYTES :])


def damaged_log(run: Path) -> None:
    """Flip a bit in the middle of the witness's log."""
    path = run / "acks.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def lost_client(run: Path) -> None:
    """Take away what the client saw of the load."""
    (run / "load.json").unlink()


def not_restarted(run: Path) -> None:
    """Have the server answer with the start that it had before the cut."""
    after = read(run / "after.json")
    manifest = read(run / "manifest.json")
    started_us = of_node(manifest)["facts"]["started_us"]
    of_node(after)["facts"]["started_us"] = started_us
    write(run / "after.json", after)


def index_mismatch(run: Path) -> None:
    """Have the index lack an entry."""
    after = read(run / "after.json")
    why = "1 row of the table has no entry in its primary key"
    after["index"] = {"reason": why, "rows": 1, "ids": [7]}
    write(run / "after.json", after)


def broken_condition(run: Path) -> None:
    """Have the server find that an order has a line less than it says."""
    after = read(run / "after.json")
    after["conditions"]["broken"] = [[4, 1, 3, 8, 7]]
    write(run / "after.json", after)


def unstable_row(run: Path) -> None:
    """Have a row be gone when the rows are read again."""
    after = read(run / "after.json")
    epoch = read(run / "manifest.json")["epoch"]
    gone = ["ledger", 7, epoch, 1, 3, 0, True]
    after["again"] = {"rows": 103, "changed": 1, "first": [gone], "orderly": True}
    write(run / "after.json", after)


def diverged_row(run: Path) -> None:
    """Have another node of the group lack a row."""
    after = read(run / "after.json")
    epoch = read(run / "manifest.json")["epoch"]
    lacking = ["ledger", 7, epoch, 1, 3, 0, True]
    after["others"] = {"node2": {"rows": 102, "differing": 1, "first": [lacking]}}
    write(run / "after.json", after)


class Row(NamedTuple):
    """One row as a run stores it; see RECORD."""

    row_id: int
    epoch: int
    session: int
    seq: int
    part: int
    checksum: int
    content: int


def change_table(
    run: Path, table: str, change: Callable[[list[Row], list[Row]], list[Row]]
) -> None:
    """Exchange the rows of a table for what *change* makes of them.

    It is given all rows and those of the run's own epoch, in their order.
    """
    path = run / f"survivors-{table}.bin"
    rows = [Row(*values) for values in RECORD.iter_unpack(path.read_bytes())]
    epoch = read(run / "manifest.json")["epoch"]
    changed = change(rows, [row for row in rows if row.epoch == epoch])
    content = b"".join(RECORD.pack(*row) for row in changed)
    path.write_bytes(content)
    after = read(run / "after.json")
    digest = hashlib.sha256(content).hexdigest()
    after["survivors"][table] = {"rows": len(changed), "sha256": digest}
    write(run / "after.json", after)


def middle(rows: list[Row]) -> Row:
    """Return the row in the middle."""
    return rows[len(rows) // 2]


def without(rows: list[Row], row: Row) -> list[Row]:
    """Return *rows* but that one."""
    return [each for each in rows if each is not row]


def duplicate_row(run: Path) -> None:
    """Have one operation in the table twice."""
    change_table(
        run,
        "ledger",
        lambda rows, own: [*rows, middle(own)._replace(row_id=10**6)],
    )


def unexpected_row(run: Path) -> None:
    """Have a row that no operation can have written."""
    change_table(
        run,
        "ledger",
        lambda rows, own: [*rows, middle(own)._replace(row_id=10**6, seq=10**6)],
    )


def stale_register(run: Path) -> None:
    """Have a register hold an older version."""

    def change(rows: list[Row], own: list[Row]) -> list[Row]:
        newest = max(own, key=lambda row: row.seq)
        return [*without(rows, newest), newest._replace(seq=newest.seq - 1)]

    change_table(run, "register", change)


def torn_register(run: Path) -> None:
    """Take away a register whose operation left its row in the ledger."""
    change_table(run, "register", lambda rows, own: without(rows, middle(own)))


def resurrected_item(run: Path) -> None:
    """Have a row there of a prepared transaction that was rolled back."""

    def change(rows: list[Row], own: list[Row]) -> list[Row]:
        one = max(own, key=lambda row: row.seq)
        seqs = {row.seq for row in own if row.session == one.session}
        rolled_back = max(set(range(1, one.seq)) - seqs)
        return [*rows, one._replace(row_id=10**6, seq=rolled_back)]

    change_table(run, "item", change)


def lost_after_its_commit(run: Path) -> None:
    """Take away the row of a prepared transaction that was committed."""
    change_table(run, "item", lambda rows, own: without(rows, middle(own)))


DERIVED: Mapping[str, tuple[str, Callable[[Path], None]]] = {
    "corrupt-row": ("postgresql-pass", corrupt_row),
    "corrupt-earlier-row": ("postgresql-pass", corrupt_earlier_row),
    "unidentified-server": ("mariadb-pass", unidentified_server),
    "missing-row": ("mariadb-pass", missing_row),
    "damaged-log": ("mariadb-pass", damaged_log),
    "lost-client": ("postgresql-pass", lost_client),
    "lost-client-lying": ("mariadb-lying", lost_client),
    "not-restarted": ("postgresql-pass", not_restarted),
    "index-mismatch": ("postgresql-pass", index_mismatch),
    "duplicate-row": ("postgresql-pass", duplicate_row),
    "unexpected-row": ("postgresql-pass", unexpected_row),
    "stale-register": ("registers-pass", stale_register),
    "torn-register": ("registers-pass", torn_register),
    "resurrected-item": ("two-phase-pass", resurrected_item),
    "lost-after-its-commit": ("two-phase-pass", lost_after_its_commit),
    "broken-condition": ("orders-pass", broken_condition),
    "unstable-row": ("orders-pass", unstable_row),
    "diverged-row": ("mysql-pass", diverged_row),
}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
