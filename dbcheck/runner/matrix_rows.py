"""The configurations of a matrix, as a TOML file and --vary describe them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.limits import SESSIONS_MAX
from dbcheck.base.setting import list_settings, map_keys
from dbcheck.config import files, workload_file
from dbcheck.config.validated import (
    convert_fields,
    convert_value,
    one_of,
    refuse_unknown,
)
from dbcheck.lab.clusters.spec import ClusterSpec, require_possible
from dbcheck.lab.lab import choose_lab_cut
from dbcheck.lab.restoring.methods import MethodName
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_restores import require_copied_lab

Values = Mapping[str, Any]

CUTS = 3
# The keys of a row that describe a lab, and those that make it a cluster, each with its
# field of LabSpec, DriveSpec or ClusterSpec.
_LAB = {"engine": "engine", "cut": "cut", **map_keys(LabSpec)}
_DRIVE = map_keys(DriveSpec)
_CLUSTER = {"nodes": "nodes", **map_keys(ClusterSpec)}
# The keys of a row that describe the load; the others are those of a workload file.
_WORKLOAD = "workload"
LOAD_KEYS = tuple(list_settings(Workload))
_SETTING = "setting."

_Count = Annotated[int, Meta(ge=0)]
_Values = dict[str, bool | int | float | str]


@dataclass(frozen=True, slots=True)
class _File:
    """The keys of a file."""

    description: str = ""
    reference: str = ""
    workload: str = "insert"
    sessions: Annotated[int, Meta(ge=1, le=SESSIONS_MAX)] | None = None
    cuts: Annotated[int, Meta(ge=1)] = CUTS
    defaults: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a row that do not describe a lab.

    cuts, until_loss, rule, restore: see Row.  relaxed: on a target only; restore: in a
    lab only.
    """

    name: str = ""
    reference: str = ""
    rule: str = ""
    expect: Annotated[str, one_of(("PASS", "FAIL"))] | None = None
    price: Annotated[float, Meta(ge=0)] | None = None
    relaxed: bool = False
    cuts: Annotated[int, Meta(ge=1)] | None = None
    until_loss: bool = False
    restore: Annotated[str, one_of(("", *map(str, MethodName)))] = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration of a matrix.

    lab:       the lab to build, None on a target.
    cluster:   what makes it a cluster of such labs, None of a single one.
    workload:  what it runs.
    settings:  on a target: of the load's sessions, name -> value.
    relaxed:   on a target: run it as a control, acked too early.
    reference: a published result, for comparison; "" if there is none.
    expect:    the verdict expected, None if PASS and FAIL are both fine.
    price:     of what it runs on, in any currency; None if not given.
    cuts:      how many to make; until_loss: the first that loses is the last.
    rule:      of the audit, which this shows to be right; "" if it is about none.
    restore:   the method by which the server is copied; "": its own rows are read.
    """

    name: str
    lab: LabSpec | None
    workload: Workload
    settings: Mapping[str, str]
    relaxed: bool
    reference: str
    expect: Verdict | None
    price: float | None
    cuts: int = CUTS
    until_loss: bool = False
    rule: str = ""
    cluster: ClusterSpec | None = None
    restore: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Configurations, each with its number of cuts.

    reference: the source of the rows' references.
    """

    description: str
    reference: str
    rows: tuple[Row, ...]


def read_matrix(
    preset: str | None,
    vary: Sequence[str],
    *,
    target: bool,
    seed: int,
    engine: str | None = None,
    workload: str | None = None,
    sessions: int | None = None,
    cuts: int | None = None,
) -> Matrix:
    """Return the matrix in the file *preset*, each row in all ways that *vary* names.

    preset: a file that ends in .toml, or a name in matrices/; None: one row, which
    vary alone describes.  vary: KEY=VALUE,VALUE,... each.  engine, workload and
    sessions: of rows that name none; the last two win over the file's.  cuts: of every
    row, None: as the row says, or else the file.  Raise UsageError, naming the row and
    the key, if something is wrong.
    """
    where, text = (
        files.read_described_file("matrix", preset) if preset else ("--vary", "")
    )
    values = files.parse_toml(text, where)
    file = convert_fields(values, _File, where)
    given: Sequence[Values] = file.rows if preset else [{}]
    if not given:
        raise UsageError(
            f"{where} has no rows",
            id=ErrorId.MATRIX_WITHOUT_ROWS,
            hint="Give at least one [[rows]].",
        )
    common: dict[str, Any] = {"engine": engine} if engine else {}
    common[_WORKLOAD] = workload or file.workload
    sessions = file.sessions if sessions is None else sessions
    names: set[str] = set()
    rows = [
        _parse_row(
            _merge_parts(f"{where}, {name}", common, file.defaults, row, varied),
            name=name,
            where=f"{where}, {name}",
            target=target,
            seed=seed,
            sessions=sessions,
            cuts=(cuts, file.cuts),
        )
        for number, row in enumerate(given, 1)
        for varied in _parse_variations(vary)
        for name in [_name_row(row, varied, number, names)]
    ]
    return Matrix(
        description=file.description,
        reference=file.reference,
        rows=tuple(rows),
    )


def _parse_variations(vary: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield every combination of the values that the options name."""
    keys, choices = [], []
    for option in vary:
        key, equals, listed = option.partition("=")
        if not (key and equals):
            raise UsageError(
                f"--vary {option} has no values",
                id=ErrorId.VARIATION_INVALID,
                hint="Give KEY=VALUE,VALUE,...",
            )
        keys.append(key)
        choices.append(listed.split(","))
    if len(set(keys)) < len(keys):
        raise UsageError(
            "--vary names a key twice",
            id=ErrorId.VARIATION_INVALID,
            hint="List its values in one.",
        )
    for combination in itertools.product(*choices):
        yield dict(zip(keys, combination, strict=True))


def _merge_parts(where: str, *parts: Values) -> dict[str, Any]:
    """Return all of *parts*; a later one wins, and settings are merged one by one."""
    merged: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for part in parts:
        table = part.get("settings", {})
        settings |= convert_value(table, _Values, where, "settings", strict=True)
        for key, value in part.items():
            if key.startswith(_SETTING):
                settings[key.removeprefix(_SETTING)] = value
            else:
                merged[key] = value
    return {**merged, "settings": settings}


def _name_row(row: Values, varied: Values, number: int, taken: set[str]) -> str:
    """Return a name for a row that none before it has, and add it to *taken*.

    CI and Prometheus identify a row by its name alone.
    """
    parts = [str(row["name"])] if "name" in row else []
    parts += [f"{key.removeprefix(_SETTING)}={value}" for key, value in varied.items()]
    given = name = ", ".join(parts) or f"row {number}"
    for again in itertools.count(2):
        if name not in taken:
            break
        name = f"{given} ({again})"
    taken.add(name)
    return name


def _parse_row(
    values: Values,
    *,
    name: str,
    where: str,
    target: bool,
    seed: int,
    sessions: int | None,
    cuts: tuple[int | None, int],
) -> Row:
    decided, usual = cuts
    own = {one.name for one in fields(_Keys)}
    of_labs = _LAB.keys() | _DRIVE.keys() | _CLUSTER.keys()
    known = own - {"restore"} if target else (own - {"relaxed"}) | of_labs
    refuse_unknown(values, known | {"settings", _WORKLOAD, *LOAD_KEYS}, where)
    keys = convert_fields(_select_keys(values, own), _Keys, where, strict=False)
    settings = {
        key: _format_setting(value) for key, value in values["settings"].items()
    }
    lab = None if target else _parse_lab(values, settings, where, seed)
    cluster = _parse_cluster(values, lab, where) if lab else None
    workload = _parse_workload(values, where, sessions)
    if lab and keys.restore:
        _require_restorable(keys.restore, lab, cluster, workload, where)
    return Row(
        name=name,
        lab=lab,
        cluster=cluster,
        workload=workload,
        settings=settings,
        relaxed=keys.relaxed,
        reference=keys.reference,
        expect=Verdict(keys.expect) if keys.expect else None,
        price=keys.price,
        cuts=decided or keys.cuts or usual,
        until_loss=keys.until_loss,
        rule=keys.rule,
        restore=keys.restore,
    )


def _require_restorable(
    method: str,
    lab: LabSpec,
    cluster: ClusterSpec | None,
    workload: Workload,
    where: str,
) -> None:
    """Raise UsageError, naming the row, if such a lab's copies cannot be judged."""
    if cluster is not None:
        raise UsageError(
            f"{where}: restore and nodes cannot be used together",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Copies are taken of a single server: leave one of them out.",
        )
    try:
        require_copied_lab(lab, method, workload)
    except UsageError as error:
        raise UsageError(f"{where}: {error}", id=error.id, hint=error.hint) from error


def _parse_cluster(values: Values, lab: LabSpec, where: str) -> ClusterSpec | None:
    given = _select_keys(values, _CLUSTER)
    if not given:
        return None
    keys = _renamed(_CLUSTER)
    spec = convert_fields(given, ClusterSpec, where, keys=keys, strict=False)
    require_possible(lab, spec)
    return spec


def _parse_workload(values: Values, where: str, sessions: int | None) -> Workload:
    """Return the workload of a row, with what it has of its own.

    sessions: if the row does not say how many; None: as the workload's file says.
    """
    name = convert_value(values[_WORKLOAD], str, where, _WORKLOAD, strict=True)
    common = workload_file.load(name).with_sessions(sessions)
    return workload_file.change_workload(common, _select_keys(values, LOAD_KEYS), where)


def _parse_lab(
    values: Values, settings: Mapping[str, str], where: str, seed: int
) -> LabSpec:
    if "engine" not in values:
        raise UsageError(
            f"{where}: engine is missing",
            id=ErrorId.KEY_MISSING,
            hint="Give --engine, or a --preset.",
        )
    drive = _select_keys(values, _DRIVE)
    for each in list_settings(DriveSpec).values():
        if each.key in drive and each.setting.scale > 1:
            number = convert_value(
                drive[each.key], _Count, where, each.key, strict=False
            )
            drive[each.key] = each.scaled(number)
    given = {"seed": seed, "size_bytes": DriveSpec().size_bytes}
    spec = convert_fields(
        drive, DriveSpec, where, given=given, keys=_renamed(_DRIVE), strict=False
    )
    lab = _select_keys(values, _LAB)
    automatic = lab.get("cut", "auto") == "auto"
    if automatic:
        lab["cut"] = "drive"
    made = convert_fields(
        lab,
        LabSpec,
        where,
        given={"settings": settings, "drive": spec},
        keys=_renamed(_LAB),
        strict=False,
    )
    return replace(made, cut=choose_lab_cut(made.engine)) if automatic else made


def _select_keys(values: Values, keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _renamed(fields: Mapping[str, str]) -> dict[str, str]:
    return {field: key for key, field in fields.items()}


def _format_setting(value: object) -> str:
    """Return a setting as a server takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
