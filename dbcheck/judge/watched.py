"""Judges what was looked at while the load ran, and the drives below the places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import explain_missing_date, find_cut_us
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.volumes import list_changes_of_storage, list_hidden_drives
from dbcheck.model.family import FAMILIES
from dbcheck.model.host import Volume
from dbcheck.model.layers import list_kinds
from dbcheck.model.places import Place, list_places_outside_data
from dbcheck.model.records import LoadRecord
from dbcheck.model.watched import GONE, FactKind, Seen, Watched

LATE_S = 5.0  # between two looks: far more than a look takes on a slow machine
_TABLE_FACTS = (FactKind.TABLE, FactKind.TABLE_VERSION)
_SUBJECTS_OF_SERVER = {
    FactKind.SETTING: "settings of the server",
    FactKind.TABLE: "definitions of dbcheck's tables",
}
_SUBJECTS_OF_SESSIONS = {FactKind.SETTING: "settings of the load's own sessions"}
_SUBJECTS_OF_HOST = {
    FactKind.MOUNT: "mounts",
    FactKind.WRITE_CACHE: "write caches of block devices",
    FactKind.PLACE: "places",
}
# Facts by which a server itself shows a change between two looks: (the sign, what was
# not seen of the change).
_SIGNS_OF_CHANGE_BETWEEN_LOOKS = {
    FactKind.CHANGE_TIME: (
        "set or loaded {} again",
        "a value between two looks was not seen",
    ),
    FactKind.CHANGE_COUNT: (
        "counted changes to any table ({})",
        "what came and went between two looks was not seen",
    ),
}


class _End(NamedTuple):
    """The words for what ends the looks: after "before", and after "after"."""

    before: str
    after: str


_CUT = _End("the cut", "the cut was taken to be")
_END_OF_LOAD = _End("the load ended", "the load ended")


def judge_looks_during_load(case: Case) -> Item | None:
    """Report the looks while the load ran, and their times; None if there was none.

    A change for a time counts against the server like one for the whole load.  Changes
    between two looks are suspected only if the server shows a sign of them, or if there
    was no look for a long time.
    """
    load, records = case.load, list(_list_watched(case))
    if load is None or not records:
        return None
    name, end, went_us = ItemId.THROUGH_LOAD, _CUT, find_cut_us(case)
    if not case.manifest.is_cut:
        end, went_us = _END_OF_LOAD, load.last_ack_us
    description = "; ".join(
        _describe_looks(watched, subjects, went_us, end)
        for watched, subjects in records
    )
    if end is _CUT and (why := explain_missing_date(case)):
        description += f". When the cut came is not known: {why}"
    if not case.manifest.control:  # a control itself changes settings
        changed = [
            describe_change(
                seen, went_us, end, of_sessions=subjects is _SUBJECTS_OF_SESSIONS
            )
            for watched, subjects in records
            for seen in load.seen_of(watched, went_us, FactKind.SETTING, *_TABLE_FACTS)
        ]
        storage = list_changes_of_storage(case.manifest, load, case.tested_name)
        changed += [describe_change(seen, went_us, end) for seen in storage]
        if changed:
            reason = f"{'; '.join(changed)}. Looked at: {description}"
            return Item(name, Status.CONTRADICTED, reason, required=False)
    # A session shows its settings whenever it commits, so no look of it is missing.
    looks = [record for record in records if record[1] is not _SUBJECTS_OF_SESSIONS]
    unseen = [
        _explain_gaps_between_looks(watched, subjects, went_us, load, end)
        for watched, subjects in looks
    ]
    if unseen := [reason for reason in unseen if reason]:
        reason = f"{'; '.join(unseen)}. Looked at: {description}"
        return Item(name, Status.ASSUMED, reason, required=False)
    return Item(name, Status.PRESENT, f"unchanged: {description}", required=False)


def describe_changes_of_tables(case: Case, kind: FactKind) -> str:
    """Describe changes of dbcheck's tables before the cut, and their times.

    "" if no look shows a change.  kind: the kind of facts whose changes to describe.
    """
    if case.load is None or case.load.watched is None:
        return ""
    went_us = find_cut_us(case)
    changes = case.load.seen_of(case.load.watched, went_us, kind)
    return "; ".join(describe_change(seen, went_us) for seen in changes)


def explain_lost_crash_canary(case: Case) -> str:
    """Explain why the crash canary shows nothing of the cut, "" if it may.

    A server that crashes and recovers by itself empties its table before the cut.
    """
    load = case.load
    by_session = FAMILIES[case.manifest.family].has_session_canary
    if load is None or (watched := load.watched) is None:
        return ""
    went_us = find_cut_us(case)
    if not watched.has_look_by(went_us) and not by_session:
        why = _explain_missing_looks(watched)
        return f"the crash canary was not looked at before the cut ({why})"
    if FactKind.CANARY not in watched.facts:
        return ""
    for seen in load.seen_of(watched, went_us, FactKind.CANARY):
        when = _format_time(seen.first_us, went_us, _CUT)
        return (
            f"the crash canary's row was gone {when} already: the server crashed and"
            " recovered by itself"
            if seen.value == GONE
            else f"the crash canary's table was gone {when} already"
        )
    if went_us is not None and _measure_unwatched_s(watched, went_us) > LATE_S:
        return (
            "the crash canary's row was not looked at for up to"
            f" {_measure_unwatched_s(watched, went_us):.1f} s before the cut, and a"
            " crash in between would have removed it as well"
        )
    return ""


def _list_watched(case: Case) -> Iterator[tuple[Watched, Mapping[FactKind, str]]]:
    """Yield each record of looks, with the names of its kinds of facts."""
    if case.load is not None and case.load.watched is not None:
        yield case.load.watched, _SUBJECTS_OF_SERVER
    if case.load is not None and case.load.sessions_watched is not None:
        yield case.load.sessions_watched, _SUBJECTS_OF_SESSIONS
    if case.at_the_cut.host_watched is not None:
        yield case.at_the_cut.host_watched, _SUBJECTS_OF_HOST


def _describe_looks(
    watched: Watched,
    subjects: Mapping[FactKind, str],
    went_us: int | None,
    end: _End,
) -> str:
    """Describe the looks: their subjects, their number and the last one's time."""
    if not watched.has_look_by(went_us):
        return _describe_missing_facts(watched, subjects, end)
    what = " and ".join(
        f"{watched.facts[kind]} {text}"
        for kind, text in subjects.items()
        if watched.facts.get(kind)
    )
    times = "once" if watched.looks == 1 else f"{watched.looks:,} times"
    text = f"{what or 'nothing'}, {times}"
    if watched.looks > 1:
        mean_us = (watched.last_us - watched.first_us) / (watched.looks - 1)
        mean, longest = _format_interval(mean_us), _format_interval(watched.gap_us)
        text += f", every {mean} (at most {longest} apart)"
    return f"{text}, the last {_format_time(watched.last_us, went_us, end)}"


def _format_interval(interval_us: float) -> str:
    """Return the time between two looks; those of many sessions come close together."""
    if interval_us >= 1e6:
        return f"{interval_us / 1e6:.1f} s"
    interval_ms = interval_us / 1e3
    digits = ".0f" if interval_ms >= 10 else ".2g"
    return f"{interval_ms:{digits}} ms"


def describe_change(
    seen: Seen, went_us: int | None, end: _End = _CUT, *, of_sessions: bool = False
) -> str:
    """Describe the value that a fact had for a time, and when.

    of_sessions: the value was in effect in some of the load's own sessions.
    """
    subject_prefixes = {
        FactKind.MOUNT: "mount ",
        FactKind.WRITE_CACHE: "queue/write_cache of ",
        FactKind.TABLE: "what was added to the table ",
        FactKind.TABLE_VERSION: "the version in the catalogs of the table ",
    }
    first, last = (
        _format_time(seen.first_us, went_us, end),
        _format_time(seen.last_us, went_us, end),
    )
    value = repr(seen.value or "not there") + " in sessions of the load" * of_sessions
    if seen.kind is FactKind.PLACE:
        value = f"at {seen.value}" if seen.value else "not where it had been"
    text = f"{subject_prefixes.get(seen.kind, '')}{seen.of} was {value}"
    if seen.looks == 1:
        return f"{text} at a look {first}"
    return f"{text} at {seen.looks:,} looks, from {first} to {last}"


def _describe_missing_facts(
    watched: Watched, subjects: Mapping[FactKind, str], end: _End
) -> str:
    """Return the facts that were never looked at, and the reason."""
    what, why = " and ".join(subjects.values()), _explain_missing_looks(watched)
    return f"{what} were not looked at before {end.before} ({why})"


def _explain_missing_looks(watched: Watched) -> str:
    """Explain why nothing was looked at."""
    return watched.ended or "no answer came before the load was over"


def _explain_gaps_between_looks(
    watched: Watched,
    subjects: Mapping[FactKind, str],
    went_us: int | None,
    load: LoadRecord,
    end: _End,
) -> str:
    """Explain what may have changed between two looks, or ""."""
    if not watched.has_look_by(went_us):
        return _describe_missing_facts(watched, subjects, end)
    for kind, (what, unseen) in _SIGNS_OF_CHANGE_BETWEEN_LOOKS.items():
        if changes := load.seen_of(watched, went_us, kind):
            names = ", ".join(dict.fromkeys(seen.of for seen in changes))
            return (
                f"the server {what.format(names)} while the load ran"
                f" ({_format_time(changes[-1].first_us, went_us, end)}): {unseen}"
            )
    if went_us is not None:
        gap_us = watched.find_longest_gap_us(load.last_ack_us or went_us)
        gap_us = max(gap_us, watched.first_us - load.began_us)
        longest_s = max(gap_us / 1e6, _measure_unwatched_s(watched, went_us))
        if longest_s > LATE_S:
            return f"nothing was looked at for {longest_s:.1f} s"
    return ""


def _measure_unwatched_s(watched: Watched, went_us: int) -> float:
    """Return for how long before the cut nothing was looked at, at most, in seconds."""
    return (went_us - watched.find_last_look_before(went_us)) / 1e6


def _format_time(at_us: int, went_us: int | None, end: _End) -> str:
    """Return when a moment was, seen from the *end*, which was at *went_us*."""
    if went_us is None:
        return f"an unknown time before {end.before}"
    behind_s = (went_us - at_us) / 1e6
    if behind_s < 0:
        return f"{-behind_s:.1f} s after {end.after}"
    return f"{behind_s:.1f} s before {end.before}"


def places(case: Case) -> Item | None:
    """Judge whether it is known on which drives all places lie, and name them.

    None if no host was asked and the server names no place outside its data directory.
    """
    before, went_us = case.before, find_cut_us(case)
    if case.strayed:
        reason = "; ".join(describe_change(each, went_us) for each in case.strayed)
        reason += "; how deep the cut would have gone there is not known"
        return Item(ItemId.PLACES, Status.CONTRADICTED, reason, required=False)
    if case.moved:
        reason = "; ".join(f"{name} moved: {why}" for name, why in case.moved.items())
        reason += "; its depth, and what it lies on, were measured where it was before"
        return Item(ItemId.PLACES, Status.CONTRADICTED, reason, required=False)
    if case.seen_otherwise:
        reason = "; ".join(f"{n}: {text}" for n, text in case.seen_otherwise.items())
        reason += "; what it lies on, and its depth, are not known"
        return Item(ItemId.PLACES, Status.CONTRADICTED, reason, required=False)
    if before is None:
        return _judge_uninspected_places(case.tested.places)
    facts = before.facts
    reason = "; ".join(map(_describe_layers_and_places, facts.volumes))
    if facts.container:
        reason += (
            f"; the server runs in a container ({facts.container.named}), and its data"
            f" directory is {facts.data_directory} on the host"
        )
    unseen = list_hidden_drives(facts.volumes)
    unseen += [
        f"{place} was not inspected ({why})" for place, why in facts.unseen.items()
    ]
    unseen += [
        f"no canaries are on {volume.named} ({canaries.failure})"
        for volume, canaries in zip(facts.volumes[1:], before.elsewhere, strict=True)
        if canaries.failure
    ]
    status = Status.NOT_OBSERVABLE if unseen else Status.PRESENT
    if why := _explain_unread_view(case):
        unseen.append(f"that the server finds the same files there is assumed ({why})")
        status = Status.NOT_OBSERVABLE if len(unseen) > 1 else Status.ASSUMED
    reason = "; ".join((*unseen, reason))
    return Item(ItemId.PLACES, status, reason, required=False)


def _explain_unread_view(case: Case) -> str:
    """Explain why the server's own view of its paths is not known, "" if it is.

    A lab starts its server and its host's sshd with one set of mounts.
    """
    if case.manifest.lab_cut is not None:
        return ""
    facts = [each.facts for each in (case.before, case.host) if each and each.facts]
    return next(filter(None, (each.view_unread for each in facts)), "")


def _describe_layers_and_places(volume: Volume) -> str:
    """Describe the layers of a place, e.g. "xfs on dm-crypt, LVM: data (sda)"."""
    between = ", ".join(list_kinds(volume.layers))
    on = f" on {between}" if between else ""
    return f"{volume.filesystem}{on}: {volume.named}"


def _judge_uninspected_places(named_by_server: Sequence[Place]) -> Item | None:
    apart = list_places_outside_data(named_by_server)
    if not apart:
        return None
    named = ", ".join(f"{place.name} ({place.path or 'unknown'})" for place in apart)
    reason = (
        f"outside of the data directory: {named}; on which drives is not known "
        "(add --target-host)"
    )
    return Item(ItemId.PLACES, Status.NOT_OBSERVABLE, reason, required=False)


def judge_depth_of_switch(case: Case) -> Item | None:
    """Report the depth that the same switch reached on each place of this run.

    None if no power test of this very host is known.  A power test does not show the
    depth of this run's own cut, so no verdict rests on it.
    """
    reached, before = case.tested.reached, case.before
    if reached is None or before is None:
        return None
    facts = before.facts
    if not facts.machine_id or facts.machine_id != reached.machine_id:
        return None
    depths = {
        volume.filesystem_uuid: volume.depth
        for volume in reached.volumes
        if volume.filesystem_uuid
    }
    shown = [
        f"{depths.get(volume.filesystem_uuid) or 'unknown'} on {volume.named}"
        for volume in facts.volumes
    ]
    known = any(volume.filesystem_uuid in depths for volume in facts.volumes)
    if not known:
        return None
    when = f"power test of {reached.at}, on the idle host: {'; '.join(shown)}"
    return Item(ItemId.SWITCH_DEPTH, Status.PRESENT, when, required=False)
