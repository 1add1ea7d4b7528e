"""What records of older formats lack or spell otherwise, one function for each step.

A step takes the plain values of a record, its format and digest left out, and returns
them as the next format has them.  What an older dbcheck did not read becomes
"unknown", and never "nothing": a run may prove less today than it did then, not more.

    2 -> 3  the host's facts name volumes; the size of a payload does not depend on the
            epoch; servers of the MySQL family have a crash canary
    3 -> 4  a workload names its plan; there may be several tables
    4 -> 5  what a control showed is named, and not read from its reason
    5 -> 6  a site has nodes, each with its name

Kinds of records that are not listed here are read in the newest format alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

FORMAT = 6  # the newest, in which every record is written
ONLY_TABLE = ""  # stands for the name of the table where a record does not have it

Values = dict[str, Any]
Steps = Mapping[int, Callable[[Values], Values]]  # by the format that they begin with

_OLDER = "the dbcheck that made this run, which is older,"
_CUT_CLASSES = {"drive": "lab drive", "process": "process"}  # by the rung of a lab
_PLANS = {"ledger": ("insert", "ledger"), "classic": ("classic", "fs")}  # and tables
_OF_VOLUME = (
    "mount_point",
    "filesystem",
    "mount_options",
    "source",
    "filesystem_uuid",
    "drives",
)


def _manifest_of_2(values: Values) -> Values:
    lab = values.get("lab", {})
    upgraded = {
        **values,
        "cut_class": _CUT_CLASSES.get(lab.get("rung"), "unknown"),
        "sizes_by_epoch": True,
    }
    if values["family"] == "mysql":
        upgraded["no_canary"] = f"{_OLDER} leaves none on such a server"
    if values.get("host") is not None:
        upgraded["host"] = _host_of_2(values["host"], in_lab=bool(lab))
    return upgraded


def _host_of_2(host: Values, *, in_lab: bool) -> Values:
    """Return HostBefore.

    in_lab: the places and layers of a lab are known, as it has one drive for all.
    """
    facts = _facts_of_2(host["facts"])
    if not in_lab:
        facts["unseen"] = {"other places": f"{_OLDER} looks at the data directory only"}
        facts["volumes"][0]["unreadable"].setdefault(
            "layers", f"{_OLDER} does not look for what only resembles a drive"
        )
    return {**host, "facts": facts}


def _facts_of_2(facts: Values) -> Values:
    """Return TargetFacts whose one volume is that of the data directory."""
    volume = {name: facts[name] for name in _OF_VOLUME}
    # A lab's go past the page cache.  That counts in labs only, see _host_of_2().
    volume["layers"] = [{**layer, "direct": True} for layer in facts["layers"]]
    volume["places"] = {"data": facts["data_directory"]}
    volume["unreadable"] = dict(facts["unreadable"])
    kept = {k: v for k, v in facts.items() if k not in (*_OF_VOLUME, "layers")}
    return {**kept, "volumes": [volume], "unseen": {}}


def _load_of_2(values: Values) -> Values:
    return {**values, "host_lived": None}


def _after_of_2(values: Values) -> Values:
    host = values.get("host")
    if host is None:
        return values
    facts = None if host["facts"] is None else _facts_of_2(host["facts"])
    return {**values, "host": {**host, "facts": facts, "shut_down": None}}


def _manifest_of_3(values: Values) -> Values:
    workload = dict(values["workload"])
    plan, table = _PLANS[workload.pop("shape")]
    upgraded = {**values, "workload": {**workload, "plan": plan}}
    return {**upgraded, "tables": {table: upgraded.pop("table")}}


def _after_of_3(values: Values) -> Values:
    upgraded = dict(values)
    rows = {"rows": upgraded["survivors"], "sha256": upgraded.pop("survivors_sha256")}
    upgraded["survivors"] = {ONLY_TABLE: rows}
    table = upgraded.pop("table", None)
    return {**upgraded, "tables": {} if table is None else {ONLY_TABLE: table}}


_BLIND = "control lost nothing"  # the whole reason of a control that saw no loss


def _manifest_of_4(values: Values) -> Values:
    if "controls" not in values:
        return values
    return {**values, "controls": [_control_of_4(each) for each in values["controls"]]}


def _control_of_4(control: Values) -> Values:
    kept = {name: value for name, value in control.items() if name != "verdict"}
    outcome = {"PASS": "lost", "FAIL": "failed"}.get(control["verdict"], "unfair")
    return {**kept, "outcome": "blind" if control["reason"] == _BLIND else outcome}


def _cycle_of_4(values: Values) -> Values:
    control = values.get("control")
    return values if control is None else {**values, "control": _control_of_4(control)}


_ONLY_NODE = "server"  # as core.site.ONLY_NODE
_OF_NODE = (
    "target",
    "power",
    "host",
    "places",
    "apart",
    "cut_class",
    "class_assumed",
    "reached",
    "restore_command",
)
_OF_NODE_AT_THE_CUT = (
    "cut",
    "canaries",
    "canaries_elsewhere",
    "heard_us",
    "host_lived",
)


def _taken(values: Values, names: Iterable[str]) -> tuple[Values, Values]:
    """Return those of *values* that have one of the *names*, and the others."""
    taken = {name: values[name] for name in names if name in values}
    return taken, {k: v for k, v in values.items() if k not in taken}


def _manifest_of_5(values: Values) -> Values:
    node, kept = _taken(values, _OF_NODE)
    node["facts"] = kept.pop("before")
    only = {"site": "single", "nodes": {_ONLY_NODE: node}, "writer_name": _ONLY_NODE}
    return {**kept, **only}


def _load_of_5(values: Values) -> Values:
    node, kept = _taken(values, _OF_NODE_AT_THE_CUT)
    return {**kept, "nodes": {_ONLY_NODE: node}}


def _restore_of_5(values: Values) -> Values:
    return {**values, "off_s": {_ONLY_NODE: values["off_s"]}}


def _after_of_5(values: Values) -> Values:
    node, kept = _taken(values, ("facts", "host"))
    return {**kept, "nodes": {_ONLY_NODE: node}, "reader_name": _ONLY_NODE}


def _unchanged(values: Values) -> Values:
    return values


MANIFEST: Steps = {
    2: _manifest_of_2,
    3: _manifest_of_3,
    4: _manifest_of_4,
    5: _manifest_of_5,
}
LOAD: Steps = {2: _load_of_2, 3: _unchanged, 4: _unchanged, 5: _load_of_5}
RESTORE: Steps = {2: _unchanged, 3: _unchanged, 4: _unchanged, 5: _restore_of_5}
AFTER: Steps = {2: _after_of_2, 3: _after_of_3, 4: _unchanged, 5: _after_of_5}
CYCLE: Steps = {4: _cycle_of_4, 5: _unchanged}
SINCE_4: Steps = {4: _unchanged, 5: _unchanged}  # kinds that have not changed since
