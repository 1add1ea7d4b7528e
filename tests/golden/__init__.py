"""How each stored run and each planted fault was judged: stored.json, planted.json.

A change that must not change a verdict is compared with them.  They have the verdict,
how each item of evidence stood, the kinds of losses, their possible causes and the
depth of the cut; of a stored run also how many rows were lost, and the bound.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dbcheck.cycle.judging import judge_run
from dbcheck.judge.result import RunResult, to_values
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.runs import make

STORED, PLANTED = (
    Path(__file__).with_name(f"{name}.json") for name in ("stored", "planted")
)

BOUND = ("losses", "cuts", "inconclusive", "depths", "loss_ppm_min", "loss_ppm_max")

Summary = dict[str, Any]  # of one judged run; plain values


def summary(result: RunResult) -> Summary:
    """Return what of a result is the same each time a fault is planted."""
    items = defaultdict(list)
    for item in result.evidence:
        items[item.status.value].append(item.item.value)
    return {
        "verdict": result.verdict.value,
        "items": dict(items),
        "losses": sorted({**(result.losses or {}), **(result.earlier_losses or {})}),
        "diagnosis": [one.cause.value for one in result.diagnosis],
        "depth": result.shown_depth.value if result.shown_depth else "",
    }


def summary_of_stored(result: RunResult) -> Summary:
    """Return what of a result is the same each time a stored run is judged."""
    bound = to_values(result.statistics)
    return {
        **summary(result),
        "losses": to_values(result.losses),
        "earlier_losses": to_values(result.earlier_losses),
        "bound": bound and {key: bound[key] for key in BOUND},
    }


def judge_stored() -> dict[str, Summary]:
    """Return how each stored run is judged."""
    found = {}
    for expected in sorted(Path(make.__file__).parent.glob("*.json")):
        with tempfile.TemporaryDirectory() as folder:
            place = make.copied(expected.with_suffix(""), Path(folder) / "run")
            result = judge_run(RunFolder.open(place), FrameLogReader()).result
            found[expected.stem] = summary_of_stored(result)
    return found


def read(file: Path) -> dict[str, Any]:
    """Return one of the two files: by name of a run, or by id of a test."""
    values: dict[str, Any] = json.loads(file.read_text())
    return values


def write(file: Path, values: Mapping[str, Any]) -> None:
    """Write one of the two files, a line for each judgement."""
    lines = []
    for name, value in sorted(values.items()):
        if isinstance(value, Mapping):
            lines.append(f"{json.dumps(name)}: {json.dumps(value)}")
            continue
        inner = ",\n  ".join(json.dumps(one) for one in value)
        lines.append(f"{json.dumps(name)}: [\n  {inner}\n ]")
    file.write_text("{\n " + ",\n ".join(lines) + "\n}\n")


def differences(
    name: str, seen: Sequence[Summary], known: Mapping[str, Sequence[Summary]]
) -> list[str]:
    """Return in words what a test saw and no earlier run of it did.

    known: by id of a test, each judgement that was seen before.
    """
    if not (before := known.get(name)):
        return [f"{name} is not in {PLANTED.name}"] if seen else []
    others = [one for one in seen if one not in before]
    return [f"{name}: {_difference(one, before)}" for one in others]


def _difference(one: Summary, known: Sequence[Summary]) -> str:
    """Return how a judgement differs from the nearest known one."""
    nearest = min(known, key=lambda other: sum(one[key] != other[key] for key in one))
    parts = [f"{key}: {one[key]}, not {nearest[key]}" for key in one]
    return "; ".join(
        part for key, part in zip(one, parts, strict=True) if one[key] != nearest[key]
    )
