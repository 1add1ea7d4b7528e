"""Reads all checks in a folder, and sets those of each server side by side.

A check is a run or a campaign.  Its verdict is the stored one: nothing is judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.campaign.beside import read_stored_verdict
from dbcheck.campaign.chosen import explain_other_server
from dbcheck.campaign.compare import Role, list_changes, list_configuration
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result
from dbcheck.judge.checks import Change, CheckResult, HistoryResult, ServerHistory
from dbcheck.model.audited import list_alarms
from dbcheck.model.records import Manifest
from dbcheck.model.verdict import Tally, Verdict
from dbcheck.runs.folder import RunFolder

_NOT_JUDGED = "it was cut, or may have been, and is not judged"
_ORDER = (Verdict.FAIL, None, Verdict.INCONCLUSIVE, Verdict.PASS)


@dataclass(frozen=True, slots=True)
class _Check:
    """One check, with the manifest of its newest run."""

    manifest: Manifest
    result: CheckResult


def read_history(root: Path) -> HistoryResult:
    """Return all checks in *root*; raise UsageError if there is none.

    A run that ended before its cut is no check, and neither is a control, unless it
    failed or is not judged.
    """
    checks: list[_Check] = []
    unread: dict[str, str] = {}
    for path in sorted(path for path in root.iterdir() if path.is_dir()):
        try:
            checks += _read_check(path)
        except DbcheckError as error:
            unread[str(path)] = str(error)
    if not checks:
        raise UsageError(
            f"{root} holds no check that can be read",
            id=ErrorId.NOT_A_RESULT_FOLDER,
            hint="Give the folder that holds runs or campaigns, e.g. runs.",
        )
    checks.sort(key=lambda one: (one.result.began, one.result.folder), reverse=True)
    servers = [_make_server(group) for group in _group_by_server(checks)]
    servers.sort(key=lambda one: _ORDER.index(one.newest.verdict))
    return HistoryResult(str(root), tuple(servers), unread)


def _read_check(path: Path) -> Iterator[_Check]:
    """Yield the check in *path*, if there is one."""
    if (path / "manifest.json").is_file():
        run = RunFolder.open(path)
        manifest = run.manifest()
        if run.was_read() or run.awaits_judgement():
            check = _read_run(run, manifest)
            is_sound = check.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE)
            if not (manifest.control and is_sound):
                yield _Check(manifest, check)
    elif (path / "campaign.json").is_file():
        yield from _read_campaign(CampaignFolder.open(path))


def _describe_check(kind: str, path: Path, manifest: Manifest) -> CheckResult:
    """Return a check of which no verdict is known yet."""
    facts, audit = manifest.writer.facts, manifest.writer.audit
    configuration = list_configuration(manifest)
    drives = (v for key, v in configuration.items() if key.role is Role.DRIVES)
    return CheckResult(
        kind=kind,
        folder=str(path),
        began=manifest.created,
        verdict=None,
        reason=_NOT_JUDGED,
        statistics=None,
        commits_per_s=None,
        server=f"{facts.product} {facts.version}",
        drives=tuple(dict.fromkeys(filter(None, drives))),
        findings=None if audit is None else tuple(map(str, list_alarms(audit))),
    )


def _read_run(run: RunFolder, manifest: Manifest) -> CheckResult:
    kind = "control" if manifest.control else "run"
    if manifest.copy is not None:
        kind = "restore" if manifest.copy.is_after_loss else "snapshot"
    check = _describe_check(kind, run.path, manifest)
    if not (run.path / "verdict.json").is_file():
        return check
    result = run.result()
    verdict, reason = read_stored_verdict(run, manifest)
    if verdict is None:
        return replace(check, reason=reason)
    depth = result.shown_depth.value if result.shown_depth else ""
    one_cut = Tally.of([(result.verdict, depth)]).statistics
    return replace(
        check,
        verdict=verdict,
        reason=reason,
        statistics=result.statistics or one_cut if kind == "run" else None,
        commits_per_s=result.load.rate if result.load else None,
    )


def _read_campaign(folder: CampaignFolder) -> Iterator[_Check]:
    """Yield the check, if a cycle was begun; the newest run tells its configuration."""
    result = make_result(folder)
    paths = sorted(folder.runs.glob("*/manifest.json"))
    if not paths:
        return
    manifest = RunFolder.open(paths[-1].parent).manifest()
    check = replace(
        _describe_check("campaign", folder.path, manifest),
        began=folder.plan().created,
        verdict=result.verdict,
        reason=result.statistics.sentence,
        statistics=result.statistics,
        commits_per_s=result.commits_per_s,
    )
    yield _Check(manifest, check)


def _group_by_server(checks: Sequence[_Check]) -> list[list[_Check]]:
    """Return the checks of each server, in the order of *checks*."""
    groups: list[list[_Check]] = []
    for check in checks:
        for group in groups:
            if not explain_other_server(group[0].manifest, check.manifest):
                group.append(check)
                break
        else:
            groups.append([check])
    return groups


def _make_server(checks: Sequence[_Check]) -> ServerHistory:
    """Return the history of one server; *checks*: the newest first."""
    newest, *earlier = checks
    before = earlier[0] if earlier else newest
    found, known = newest.result.findings, before.result.findings
    rates = before.result.commits_per_s, newest.result.commits_per_s
    changes, _ = list_changes(
        list_configuration(before.manifest), list_configuration(newest.manifest)
    )
    is_known = found is not None and known is not None
    return ServerHistory(
        target=newest.manifest.writer.target,
        checks=tuple(check.result for check in checks),
        new_findings=_leave_out(found, known) if is_known else (),
        gone_findings=_leave_out(known, found) if is_known else (),
        rate_ratio=rates[1] / rates[0] if earlier and rates[0] and rates[1] else None,
        changes=tuple(Change(one.name, one.a, one.b) for one in changes),
    )


def _leave_out(
    texts: Sequence[str] | None, others: Sequence[str] | None
) -> tuple[str, ...]:
    return tuple(text for text in texts or () if text not in (others or ()))
