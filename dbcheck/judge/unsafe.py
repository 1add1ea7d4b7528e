"""The settings of a run that are not safe, each as it was at its worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.audit import platform, rules, storage
from dbcheck.audit.rules import Finding
from dbcheck.judge.volumes import storage_seen
from dbcheck.model.audited import RuleStanding
from dbcheck.model.records import LoadRecord, Manifest
from dbcheck.model.watched import FactKind


def unsafe_settings(
    manifest: Manifest, load: LoadRecord | None, tested_name: str, went_us: int | None
) -> list[Finding]:
    """Return the findings on the settings of a run, those of its storage too.

    What could not be read is among them, as unknown.
    As they were in the preflight, or while the load ran or just before the cut where
    they were worse then; a control makes them worse itself.
    went_us: when the cut came, None if that is not known.
    tested_name: see Case.  Where a standby was cut and read, its own settings count
    beside those of the writer, which answered the commits.
    """
    tested = manifest.nodes[tested_name]
    kept = _storage(manifest, load, tested_name)
    settings = {**manifest.writer.facts.settings, **kept}
    found = flagged(manifest, settings)
    if tested is not manifest.writer:
        own = flagged(manifest, {**tested.facts.settings, **kept})
        found = _worse(found, own)
    if load is not None and not manifest.control:
        for setting, value in load.settings_seen(went_us):
            found = _worse(found, flagged(manifest, {**settings, setting: value}))
        if load.settings:
            found = _worse(found, flagged(manifest, load.settings))
    return found


def flagged(manifest: Manifest, settings: Mapping[str, str]) -> list[Finding]:
    """Return the findings on settings; of a group without those about its peers."""
    found = rules.flagged(manifest.family, settings)
    grouped = manifest.site.is_group
    return [each for each in found if not (grouped and each.harm.peers)]


def _worse(before: Sequence[Finding], later: Sequence[Finding]) -> list[Finding]:
    """Return the findings of *before*, and of *later* those that became unsafe."""

    def unsafe(findings: Sequence[Finding]) -> dict[str, Finding]:
        found = (f for f in findings if f.standing is RuleStanding.UNSAFE)
        return {finding.rule.fact: finding for finding in found}

    became = {**unsafe(later), **unsafe(before)}
    rest = (finding for finding in before if finding.rule.fact not in became)
    return [*became.values(), *rest]


def _storage(
    manifest: Manifest, load: LoadRecord | None, name: str
) -> Mapping[str, str]:
    """Return what the mounts' options imply, those too that a mount had for a time."""
    host = manifest.nodes[name].host
    if host is not None:
        options = [volume.mount_options for volume in host.facts.volumes]
        if load is not None:
            seen = storage_seen(manifest, load, name, FactKind.MOUNT)
            options += [each.value for each in seen]
        process = host.facts.process
        return {
            **storage.settings_of(options),
            **(platform.facts_of_process(process) if process else {}),
        }
    return storage.settings_of([str(manifest.lab.get("mount_options", ""))])
