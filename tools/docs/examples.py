"""Writes docs/examples and docs/demo.svg from real cuts.

`python -m tools.docs.examples`, as root, with what a lab needs; it takes two minutes.
Everything runs in mount and UTS namespaces of its own, so that no path and no host name
of this machine gets into a report, and no lab of this machine is touched.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from dbcheck.cli import FAIL, INCONCLUSIVE, PASS, demo
from dbcheck.lab import syscalls
from dbcheck.model.verdict import Verdict
from dbcheck.report.console import make_console

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "examples"
DEMO = DOCS / "demo.svg"
HOST = "lab"  # the name of the host in the reports
_CLONE_NEWUTS = 0x04000000  # unshare(2)
_MS_BIND = 4096  # mount(2)
_PLACE = Path("/srv")  # empty on any system (FHS); covered in our namespace only
_CODES = {
    Verdict.PASS: PASS,
    Verdict.FAIL: FAIL,
    Verdict.INCONCLUSIVE: INCONCLUSIVE,
    None: PASS,  # each row came out as its preset expects
}
_TRIES = 3
_COLUMNS = 84  # of the picture
# White on it reads well, and so does its frame on a light and on a dark page.
_THEME = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [(48, 54, 61), (207, 34, 46), (26, 127, 55), (154, 103, 0)]
    + [(9, 105, 218), (130, 80, 223), (27, 124, 131), (230, 237, 243)],
)
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono"


@dataclass(frozen=True, slots=True)
class Example:
    """A result and its reports.

    name:     of the files.
    what:     what was run, as a heading.
    verdict:  what it must come to; None for a matrix, whose rows have one each.
    commands: the last one makes the result and ends with the code of the verdict.
    result:   what `dbcheck report` is given, as a pattern; it fits one path.
    suffixes: of the reports.
    look:     what to look at, as a paragraph.
    shows:    what the page has in any case; chance may need another try for it.
    """

    name: str
    what: str
    verdict: Verdict | None
    commands: tuple[str, ...]
    result: str
    look: str
    shows: tuple[str, ...]
    suffixes: tuple[str, ...] = (".html",)


EXAMPLES = (
    Example(
        "pass",
        "PASS: PostgreSQL on an honest drive",
        Verdict.PASS,
        (
            "dbcheck lab run --engine postgresql --workload mixed --seed 1"
            " --runs runs-pass",
        ),
        "runs-pass/*",
        "The first box says how little one pass proves, what to do next, and what was "
        "checked. All else is folded, since nothing is wrong: open the evidence to "
        "see what a PASS needs, and how each item was seen. It prints on two pages.",
        ("cache was lost, too",),
    ),
    Example(
        "fail",
        "FAIL: MariaDB on a drive that ignores flushes",
        Verdict.FAIL,
        (
            "dbcheck lab run --engine mariadb --workload mixed --rows-before 2000"
            " --drive lying --seed 1 --runs runs-fail",
        ),
        "runs-fail/*",
        "No setting of the server is at fault, and the page says so: the server asked "
        "for flushes, and the drive answered them. The lost commits (red) are the "
        "newest of every session. The older ones are there because this drive writes "
        "its cache back after a second. The JUnit file has one failure; a CI system "
        "shows its text.",
        ("No setting of the server explains this", "acked, then lost"),
        (".html", ".md", ".xml", ".prom", ".json"),
    ),
    Example(
        "inconclusive",
        "INCONCLUSIVE: a mount option that can lose commits, and a cut that lost none",
        Verdict.INCONCLUSIVE,
        (
            "dbcheck lab run --engine postgresql --fs ext4 --mount-options barrier=0"
            " --kept-writes all --seed 1 --runs runs-inconclusive",
        ),
        "runs-inconclusive/*",
        "All commits are there, and yet this is not a PASS: without barriers the "
        "filesystem sends the drive no flushes. The drive wrote all of its cache out "
        "in this cut; it may not in another one. The audit named the mount option "
        "before the cut, and the page says how to fix it.",
        ("this cut does not count", "barrier = nobarrier", "Fix:"),
    ),
    Example(
        "cluster",
        "A cluster: a standby that commits did not wait for",
        Verdict.FAIL,
        (
            "dbcheck lab run --engine postgresql --nodes 2 --promise writer-gone"
            " --setting synchronous_commit=local --link-down-after 0.5 --seed 1"
            " --runs runs-cluster",
        ),
        "runs-cluster/*",
        "The link to the standby broke half a second into the load, and the writer "
        "went on to acknowledge commits. The standby that took over lacks them all; "
        "the table of the nodes shows that the old writer still has them. The server "
        "lists the standby as synchronous, and yet no commit waits for it: the page "
        "names the setting.",
        ("the cluster lost", "took over", "synchronous_commit = local"),
    ),
    Example(
        "campaign",
        "A campaign: a drive that lies only now and then",
        Verdict.FAIL,
        (
            "dbcheck lab up --engine postgresql --drive fickle --seed 4 --name db1",
            "dbcheck lab inventory > labs.yml",
            "dbcheck campaign db1 --inventory labs.yml --cuts 8 --seed 4"
            " --folder campaign",
        ),
        "campaign",
        "The drive passes several cuts before the first loss ends the campaign: one "
        "cut, or a few, would have passed. Beside the cause are the figures, with both "
        "bounds for the share of cuts that lose.",
        ("1 of 4 cuts of db1 lost acknowledged data", "of such cuts lose"),
    ),
    Example(
        "matrix",
        "A matrix: one server, four ways to attach its drive",
        None,
        ("dbcheck matrix --preset percona-2009 --cuts 1 --seed 1 --runs runs-matrix",),
        "runs-matrix/matrix-*.json",
        "The two fast rows lose, and the two slow ones do not: a durable commit waits "
        "for the drive. The latencies of the virtual drive were set, so compare the "
        "rows with each other and not with a drive of your own.",
        ("2 of 4 configurations lost acknowledged data", "as expected"),
    ),
)
_AFTERWARDS = {"campaign": "dbcheck lab down db1"}

_INTRO = """# Examples of reports

Reports of real cuts in the lab, made by `python -m tools.docs.examples` (as root). The
drive of a lab is virtual: these pages show what dbcheck reports, and nothing about any
drive that can be bought. GitHub shows the source of an HTML file; download it and open
it in a browser. Each page is one file that loads nothing.
"""


def text() -> str:
    """Return docs/examples/README.md."""
    return "\n".join([_INTRO, *map(_section, EXAMPLES)])


def _section(example: Example) -> str:
    files = ", ".join(f"[{file}]({file})" for file in files_of(example))
    folder = example.result.replace("/*", "/ID").replace("matrix-*", "matrix-ID")
    commands = [*example.commands, *_AFTERWARDS.get(example.name, "").splitlines()]
    commands += [f"dbcheck report {folder} -o {name}" for name in files_of(example)]
    shown = "\n".join(f"    {each}" for each in commands)
    look = textwrap.fill(example.look, 88, break_on_hyphens=False)
    return f"## {example.what}\n\n{files}\n\n{shown}\n\n{look}\n"


def files_of(example: Example) -> list[str]:
    """Return the names of an example's reports."""
    return [example.name + suffix for suffix in example.suffixes]


def main() -> None:
    """Write all files; raise SystemExit if a verdict is another than is wanted."""
    if os.geteuid() != 0:
        raise SystemExit("this needs root, as labs with a drive do")
    private = (socket.gethostname(), Path("/etc/machine-id").read_text().strip())
    with tempfile.TemporaryDirectory(prefix="dbcheck-", dir="/var/tmp") as name:
        _apart(Path(name))
        FOLDER.mkdir(exist_ok=True)
        made = {file: content for each in EXAMPLES for file, content in _made(each)}
        made["README.md"] = text()
        picture = _picture()
    for file, content in made.items():
        if any(word and word in content.split() for word in private):
            raise SystemExit(f"{file} names this machine")
        (FOLDER / file).write_text(content)
    DEMO.write_text(picture)


def _apart(folder: Path) -> None:
    """Have this process and its children see *folder* as /srv, and a host named lab."""
    syscalls.unshare(syscalls.CLONE_NEWNS | _CLONE_NEWUTS)
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount(str(folder), str(_PLACE), None, _MS_BIND)
    syscalls.mount("none", "/run", "tmpfs", 0)
    socket.sethostname(HOST)
    os.chdir(_PLACE)
    own = {"TMPDIR": str(_PLACE), "XDG_STATE_HOME": str(_PLACE / "state")}
    os.environ.update(own)
    tempfile.tempdir = None


def _made(example: Example) -> Sequence[tuple[str, str]]:
    """Make an example; return the name and the content of each report."""
    files = files_of(example)
    for _ in range(_TRIES):
        result = _result(example)
        for file in files:
            _run(f"dbcheck report {result} -o {file}", PASS)
        made = [(file, Path(file).read_text()) for file in files]
        lacking = [each for each in example.shows if each not in made[0][1]]
        if not lacking:
            return made
        sys.stderr.write(f"{files[0]} lacks {lacking}: once more\n")
        result.rename(f"{example.name}-{secrets.token_hex(4)}")
    raise SystemExit(f"{files[0]} lacks {lacking}, {_TRIES} times")


def _result(example: Example) -> Path:
    """Run an example; return what holds its result."""
    *before, last = example.commands
    try:
        for each in before:
            _run(each, PASS)
        _run(last, _CODES[example.verdict])
    finally:
        if after := _AFTERWARDS.get(example.name):
            _run(after, PASS)
    (result,) = Path().glob(example.result)
    return result


def _run(line: str, code: int) -> None:
    """Run a command line of dbcheck; raise SystemExit if it ends with another code."""
    words, _, file = line.partition(" > ")
    sys.stderr.write(f"$ {line}\n")
    command = [sys.executable, "-P", "-m", *shlex.split(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != code:
        said = f"{done.stdout}{done.stderr}"
        raise SystemExit(f"{said}\n{line}: {done.returncode}, not {code}")
    if file:
        Path(file).write_text(done.stdout)


def _picture() -> str:
    """Return what `make demo` prints in a real run, as an SVG."""
    sys.stderr.write("$ make demo\n")
    screen = make_console(
        record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True
    )
    screen.print(Text("$ make demo", style="bold"))
    with mock.patch.object(demo, "make_console", lambda: screen):
        try:
            demo.command.main(["--seed", "1"], standalone_mode=False)
        except SystemExit as ended:
            if ended.code != PASS:
                raise SystemExit(screen.export_text()) from None
    frame = _svg_frame()
    return screen.export_svg(title="dbcheck", theme=_THEME, code_format=frame)


def _svg_frame() -> str:
    """Return rich's template without the fonts that it would load from elsewhere."""
    frame = re.sub(r"    @font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.S)
    return frame.replace("font-family: Fira Code,", f"font-family: {_FONTS},")


if __name__ == "__main__":
    main()
