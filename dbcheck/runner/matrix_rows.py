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
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.rows.workload import Workload

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
class _MatrixFile:
    """The keys of a matrix file."""

    description: str = ""
    reference: str = ""
    workload: str = "insert"
    sessions: Annotated[int, Meta(ge=1, le=SESSIONS_MAX)] | None = None
    cuts: Annotated[int, Meta(ge=1)] = CUTS
    defaults: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class _RowKeys:
    """The keys of a row that do not describe a lab, see Row.

    relaxed: on a target only.
    """

    name: str = ""
    reference: str = ""
    rule: str = ""
    expect: Annotated[str, one_of(("PASS", "FAIL"))] | None = None
    price: Annotated[float, Meta(ge=0)] | None = None
    relaxed: bool = False
    cuts: Annotated[int, Meta(ge=1)] | None = None
    until_loss: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration of a matrix.

    lab:       the lab to build, None on a target.
    cluster:   what makes the row a cluster of such labs, None for a single lab.
    workload:  the load that runs in the row.
    settings:  settings, name -> value: on a target those of the load's sessions.
    relaxed:   on a target: run the row as a control, acked too early.
    reference: a published result, for comparison; "" if there is none.
    expect:    the verdict expected, None if PASS and FAIL are both fine.
    price:     price of what the row runs on, in any currency; None if not given.
    cuts:      how many cuts to make; until_loss: the first cut that loses is the last.
    rule:      rule of the audit that the row shows to be right; "" if it is about none.
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
    vary alone describes.  vary: options KEY=VALUE,VALUE,...  engine, workload and
    sessions: for rows that name none; the last two win over the file's.  cuts: for
    every row; None: as the row says, or else the file.  Raise UsageError, naming the
    row and the key, if something is wrong.
    """
    source, text = (
        files.read_described_file("matrix", preset) if preset else ("--vary", "")
    )
    values = files.parse_toml(text, source)
    file = convert_fields(values, _MatrixFile, source)
    row_tables: Sequence[Values] = file.rows if preset else [{}]
    if not row_tables:
        raise UsageError(
            f"{source} has no rows",
            id=ErrorId.MATRIX_WITHOUT_ROWS,
            hint="Give at least one [[rows]].",
        )
    common: dict[str, Any] = {"engine": engine} if engine else {}
    common[_WORKLOAD_KEY] = workload or file.workload
    sessions = file.sessions if sessions is None else sessions
    rows = [
        _parse_row(
            _merge_parts(f"{source}, {name}", common, file.defaults, row, varied),
            name=name,
            where=f"{source}, {name}",
            target=target,
            seed=seed,
            sessions=sessions,
            cuts=(cuts, file.cuts),
        )
        for number, row in enumerate(row_tables, 1)
        for varied in _parse_variations(vary)
        for name in [_name_row(row, varied, number)]
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
    """Merge *parts*; a later part wins, and settings are merged one by one."""
    merged: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for part in parts:
        table = part.get("settings", {})
        settings |= convert_value(table, _Values, where, "settings", strict=True)
        for key, value in part.items():
            if key.startswith(_SETTING_PREFIX):
                settings[key.removeprefix(_SETTING_PREFIX)] = value
            else:
                merged[key] = value
    return {**merged, "settings": settings}


def _name_row(row: Values, varied: Values, number: int) -> str:
    parts = [str(row["name"])] if "name" in row else []
    parts += [
        f"{key.removeprefix(_SETTING_PREFIX)}={value}" for key, value in varied.items()
    ]
    return ", ".join(parts) or f"row {number}"


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
    known = own if target else (own - {"relaxed"}) | of_labs
    refuse_unknown(values, known | {"settings", _WORKLOAD, *LOAD_KEYS}, where)
    keys = convert_fields(_select_keys(values, own), _Keys, where, strict=False)
    settings = {
        key: _format_setting(value) for key, value in values["settings"].items()
    }
    lab = None if target else _parse_lab(values, settings, where, seed)
    return Row(
        name=name,
        lab=lab,
        cluster=_parse_cluster(values, lab, where) if lab else None,
        workload=_parse_workload(values, where, sessions),
        settings=settings,
        relaxed=keys.relaxed,
        reference=keys.reference,
        expect=Verdict(keys.expect) if keys.expect else None,
        price=keys.price,
        cuts=given or keys.cuts or default,
        until_loss=keys.until_loss,
        rule=keys.rule,
    )


def _parse_cluster(values: Values, lab: LabSpec, where: str) -> ClusterSpec | None:
    given = _select_keys(values, _CLUSTER_KEYS)
    if not given:
        return None
    keys = _swap_keys_and_fields(_CLUSTER_KEYS)
    spec = convert_fields(given, ClusterSpec, where, keys=keys, strict=False)
    require_possible(lab, spec)
    return spec


def _parse_workload(values: Values, where: str, sessions: int | None) -> Workload:
    """Return the workload of a row, with the row's own changes.

    sessions: number of sessions if the row gives none; None: as the workload's file
    says.
    """
    name = convert_value(values[_WORKLOAD_KEY], str, where, _WORKLOAD_KEY, strict=True)
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
    drive = _select_keys(values, _DRIVE_KEYS)
    for entry in list_settings(DriveSpec).values():
        if entry.key in drive and entry.setting.scale > 1:
            number = convert_value(
                drive[entry.key], _Count, where, entry.key, strict=False
            )
            drive[entry.key] = entry.scaled(number)
    given = {"seed": seed, "size_bytes": DriveSpec().size_bytes}
    spec = convert_fields(
        drive,
        DriveSpec,
        where,
        given=given,
        keys=_swap_keys_and_fields(_DRIVE_KEYS),
        strict=False,
    )
    lab = _select_keys(values, _LAB_KEYS)
    automatic = lab.get("cut", "auto") == "auto"
    if automatic:
        lab["cut"] = "drive"
    spec_of_lab = convert_fields(
        lab,
        LabSpec,
        where,
        given={"settings": settings, "drive": spec},
        keys=_swap_keys_and_fields(_LAB_KEYS),
        strict=False,
    )
    return (
        replace(spec_of_lab, cut=choose_lab_cut(spec_of_lab.engine))
        if automatic
        else spec_of_lab
    )


def _select_keys(values: Values, keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _swap_keys_and_fields(fields: Mapping[str, str]) -> dict[str, str]:
    return {field: key for key, field in fields.items()}


def _format_setting(value: object) -> str:
    """Return a setting as a server takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
