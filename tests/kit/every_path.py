"""Every path that a command takes, given as one that cannot be used.

python -m tests.kit.every_path FOLDER calls each command in a process of its own and
prints a line of JSON for each: the kind of the path, the words of the command, its exit
code (null if it did not end), and what it printed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tests.kit.commandtree import contexts

STORED_RUN = Path(__file__).parents[1] / "runs" / "mysql-pass"
ENDS_S = 60.0
NO_CODE = 99
# What a command needs beside the path, so that it is looked at.
BESIDE = {
    "dbcheck demo --runs": ["--list"],
    "dbcheck audit --inventory": ["db1"],
    "dbcheck probe flushes --inventory": ["db1"],
    "dbcheck probe latency --inventory": ["db1"],
    "dbcheck run --inventory": ["db1"],
    "dbcheck run --workload": ["--target", "postgresql://u@127.0.0.1:1/d"],
    "dbcheck campaign --inventory": ["db1", "--cuts", "1"],
    "dbcheck matrix --inventory": ["db1", "--vary", "sessions=1"],
    "dbcheck clean --inventory": ["db1"],
    "dbcheck reconcile run": ["--offline"],
    "dbcheck reconcile --runs": ["RUN", "--offline"],
    "dbcheck report --output": ["RUN", "--format", "md"],
    "dbcheck bundle --output": ["RUN"],
    "dbcheck bundle --sign": ["RUN"],
    "dbcheck verify --allowed-signers": ["BUNDLE"],
    "dbcheck lab log-writes --output": ["RUN"],
    **{
        f"dbcheck power {verb} --inventory": ["db1"]
        for verb in ("cut", "restore", "state", "test")
    },
}
# Nobody can read, or write, anything there.
UNUSABLE = (
    "a folder that is closed",
    "in a folder that is closed",
    "in a file",
    "a link to itself",
    "a name too long",
    "of an unknown user",
)
# All verbs read an inventory in the same way, which takes long.
READS_INVENTORY = "dbcheck power state"


def kinds(place: Path) -> dict[str, Path]:
    """Make a path of each kind in *place*; return it by what it is."""
    closed = place / "closed"
    shutil.copytree(STORED_RUN, closed)
    unread = place / "unread"  # the run's folder may be entered, its files not read
    shutil.copytree(STORED_RUN, unread)
    (unread / "manifest.json").chmod(0)
    campaign = place / "campaign"
    for folder in (campaign, campaign / "runs", campaign / "cycles"):
        folder.mkdir()
    (campaign / "campaign.json").touch(mode=0)
    (campaign / "cycles").chmod(0)
    file = place / "file"
    file.write_text("\0")
    (place / "unread.toml").touch(mode=0)
    (place / "dangling").symlink_to(place / "none")
    (place / "loop").symlink_to(place / "loop")
    os.mkfifo(place / "pipe")
    closed.chmod(0)
    return {
        "a folder that is closed": closed,
        "in a folder that is closed": closed / "manifest.json",
        "a run that is closed": unread,
        "a campaign that is closed": campaign,
        "a file that is closed": place / "unread.toml",
        "in a file": file / "x",
        "a file": file,
        "a folder": place,
        "a link to nothing": place / "dangling",
        "a link to itself": place / "loop",
        "a name too long": place / ("x" * 300),
        "a pipe": place / "pipe",
        "of an unknown user": Path("~no-such-user/x"),
    }


def calls(
    found: dict[str, Path], beside: dict[str, Path]
) -> Iterator[tuple[str, list[str]]]:
    """Yield each kind, and the words of each command with such a path."""
    for context in contexts():
        if isinstance(context.command, click.Group):
            continue
        for parameter in context.command.get_params(context):
            name = parameter.opts[-1]
            if not takes_path(parameter):
                continue
            path = context.command_path
            more = [
                str(beside.get(word, word)) for word in BESIDE.get(f"{path} {name}", [])
            ]
            flag = [name] if name.startswith("-") else []
            for kind, bad in found.items():
                is_read = name != "--inventory" or path == READS_INVENTORY
                if kind not in UNUSABLE and not is_read:
                    continue
                if kind == "a pipe" and name in ("--output", "file"):
                    continue  # it is written to once somebody reads it
                words = path.split()[1:]
                yield kind, [*words, *more, *flag, *[str(bad)] * parameter.nargs]


def takes_path(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.Path) or "FILE" in (parameter.metavar or "")


def called(words: Sequence[str], written: Path) -> dict[str, Any]:
    """Run one command in a child; return what came of it."""
    child = os.fork()
    if not child:
        output = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, opened in enumerate((nothing, output, output)):
            os.dup2(opened, number)
        sys.argv = ["dbcheck", *words]
        from dbcheck.cli import main

        try:
            main()
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else NO_CODE)
        os._exit(NO_CODE)
    ends_s = time.monotonic() + ENDS_S
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > ends_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"words": words, "code": None, "output": ""}
        time.sleep(0.005)
    code = os.waitstatus_to_exitcode(ended[1])
    return {"words": words, "code": code, "output": written.read_text("utf-8")}


def main() -> None:
    """Call each command; what is made here is made in FOLDER."""
    place = Path(sys.argv[1])
    os.chdir(place)
    bundle, run = place / "good.dbcheck.tar", place / "good"
    shutil.copytree(STORED_RUN, run)
    made = called(["bundle", str(run), "-o", str(bundle)], place / "said")
    assert made["code"] == 0, made
    bad = place / "bad"
    bad.mkdir()
    for kind, words in calls(kinds(bad), {"RUN": run, "BUNDLE": bundle}):
        line = json.dumps({"kind": kind, **called(words, place / "said")})
        os.write(sys.stdout.fileno(), f"{line}\n".encode())


if __name__ == "__main__":
    main()
