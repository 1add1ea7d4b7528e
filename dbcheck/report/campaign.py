"""What campaigns show, for people; drawn from the JSON that machines get."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.core.cutclass import shown
from dbcheck.core.statistics import unseen_sentence
from dbcheck.core.values import Json
from dbcheck.core.verdict import Verdict
from dbcheck.report.lab import number, rows_lost, verdict

SHOWN_MAX = 8


def campaigns_report(folder: str, results: Sequence[Json]) -> RenderableType:
    """Return one row for each target, and what its cuts prove."""
    table = Table(title="Campaign", title_justify="left", title_style="bold")
    table.add_column("target", overflow="fold")
    for name in ("cuts", "lossy", "rows lost", "commits", "acks/s"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    parts: list[RenderableType] = ["", table]
    for result in results:
        table.add_row(*_row(result))
        parts += ["", Text(result["name"], "bold"), *_said(result)]
    parts += ["", Text(f"All of it: {folder}", "italic"), ""]
    return Group(*parts)


def _row(result: Json) -> list[str | Text]:
    cycles = [cycle for cycle in result["cycles"] if cycle["number"]]
    rates = [cycle["acks_per_s"] for cycle in cycles if cycle["acks_per_s"]]
    return [
        result["name"],
        f"{result['cuts']} of {result['planned_cuts']}",
        number(result["losses"]),
        rows_lost(*(_sum(cycles, name) for name in ("lost", "earlier_lost"))),
        number(_sum(cycles, "confirmed")),
        f"{median(rates):,.0f}" if rates else "-",
        verdict(Verdict(result["verdict"])),
    ]


def _sum(cycles: Sequence[Json], name: str) -> int:
    return sum(cycle[name] or 0 for cycle in cycles)


def _said(result: Json) -> list[RenderableType]:
    said = [result["sentence"]]
    if result["cuts"] and not result["losses"]:
        said.append(unseen_sentence(result["cuts"]))
    if result["cuts"]:
        counts = ", ".join(f"{n} {name}" for name, n in result["strata"].items())
        said.append(f"what went on at the cuts: {counts}")
    missed = [cycle for cycle in result["cycles"] if cycle["missed"]]
    if missed:
        said.append(
            f"{len(missed)} cuts missed what was drawn for them, the first: "
            + missed[0]["missed"]
        )
    cuts = ((cycle["cut_class"], cycle["depth"]) for cycle in result["cycles"])
    if classes := shown(cuts):
        said.append(f"class of the cuts: {classes}")
    if result["cuts_still_needed"]:
        said.append(f"{result['cuts_still_needed']} more cuts are needed")
    said += [
        f"{cycle['verdict']} in cycle {cycle['number']} ({cycle['stratum']}):"
        f" {cycle['reason']}"
        for cycle in result["cycles"]
        if cycle["number"] and cycle["verdict"] != "PASS"
    ][:SHOWN_MAX]
    said += _at_fault(result["cycles"])
    if result["error"]:
        said += [result["error"], f"dbcheck campaign --resume {result['folder']}"]
    return [Padding(Text(line), (0, 0, 0, 2)) for line in said]


def _at_fault(cycles: Sequence[Json]) -> list[str]:
    """Return the settings that explain the losses, each once."""
    losses = [cycle for cycle in cycles if cycle["verdict"] == "FAIL"]
    found = [said for cycle in losses for said in cycle["settings_at_fault"]]
    return [f"setting at fault: {said}" for said in dict.fromkeys(found)]
