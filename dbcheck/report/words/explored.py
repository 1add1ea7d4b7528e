"""Sentences of a report on explored crash states."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbcheck.model.explored import (
    ExploreResult,
    Finding,
    LostBlock,
    StateJudgement,
    StateResult,
)
from dbcheck.model.verdict import PROOF_OF_LOSS, Verdict, format_count
from dbcheck.report.words.run import NOT_A_DRIVE, number, sentence
from dbcheck.report.words.summary import CHECK_THE_REAL_SERVER, Summary, Tile
from dbcheck.rows.loss import MISSING, LossKind

SCOPE = (
    "Scope: only a power loss of the lab's virtual drive and all that is above it was"
    " tested."
    f" {NOT_A_DRIVE}"
)
_NAMED = 3  # states
_NO_FILE = "journal, metadata or a removed file"
_NOT_KNOWN = "not known: the filesystem cannot be mounted"
_NO_RATE = (
    "These states were chosen to differ, not drawn as power cuts would draw them: the"
    " share that fails says nothing about how often a cut does harm, and a state that"
    " was not judged may still fail."
)


def summary(result: ExploreResult) -> str:
    """Return the sentence that counts the states judged, and those that failed."""
    states = "crash state" if result.states == 1 else "different crash states"
    text = (
        f"{number(result.states)} {states} of one load with {number(result.commits)}"
        f" acknowledged commits in {result.load_s:.1f} s"
    )
    if result.failed:
        kept = f"{number(result.failed)} lost acknowledged commits or did not come back"
    elif judged := result.states - result.inconclusive:
        one, several = (
            ("the other", "the others") if result.inconclusive else ("it", "all")
        )
        who = one if judged == 1 else several
        kept = f"{who} kept all commits that were acknowledged before the cut"
    else:
        kept = "none was judged"
    parts = [f"{text}: {kept}"]
    if result.inconclusive:
        parts.append(f"{number(result.inconclusive)} could not be judged")
    if not result.finished:
        parts.append("the exploration ended before all wanted states were judged")
    elif result.states < result.wanted:
        wanted = number(result.wanted)
        parts.append(f"{wanted} were asked for, and the load has hardly any others")
    return "; ".join(parts) + "."


def summarize_exploration(result: ExploreResult) -> Summary:
    """Return the first box of a report on explored crash states."""
    decided = result.states - result.inconclusive
    ways = [f"{finding.name}: {how_it_fails(finding)}" for finding in result.findings]
    return Summary(
        badge=result.verdict.value,
        verdict=result.verdict,
        headline=summary(result),
        detail=f"{'; '.join(ways[:_NAMED])}." if ways else "",
        proof=PROOF_OF_LOSS if result.failed else "",
        action=_choose_action(result),
        about=(("lab", describe_lab_server(result.lab)),),
        tiles=(
            Tile("states", number(result.states), f"of {number(result.wanted)} wanted"),
            Tile("failed", number(result.failed), f"of {number(decided)} decided"),
            Tile("ways to fail", number(len(result.findings)), "reduced to few writes"),
            Tile("commits", number(result.commits), "acknowledged in the load"),
        ),
    )


def _choose_action(result: ExploreResult) -> str:
    if result.findings:
        return (
            "Read below what the server lost, and which writes were not on the drive."
            " The command below shows such a state."
        )
    if result.failed:
        return "Look at a state that failed, which --state shows; see below."
    if not result.finished:
        return "Go on with the command below."
    if result.inconclusive:
        return "Read below why states could not be judged."
    return CHECK_THE_REAL_SERVER


def list_commands(result: ExploreResult) -> Iterator[tuple[str, str]]:
    """Yield what else can be done with the recording, and the command for it."""
    command = f"dbcheck lab explore {shlex.quote(result.folder)}"
    if result.failing:
        named = result.findings[0].name if result.findings else result.failing[0]
        yield "judge it again", f"{command} --state {shlex.quote(named)}"
    if not result.finished:
        yield "go on", f"{command} --states {result.wanted}"


def describe_lab_server(lab: Mapping[str, Any]) -> str:
    """Return the server, filesystem and drive of a lab's spec, which may be forged."""
    drive = lab.get("drive")
    personality = drive.get("personality") if isinstance(drive, Mapping) else None
    parts = (
        lab.get("engine"),
        lab.get("filesystem"),
        f"{personality} drive" if personality else "",
    )
    return ", ".join(str(part) for part in parts if part) or "virtual drive"


def coverage_sentences(result: ExploreResult) -> Iterator[str]:
    """Yield what the states cover, and what that does not show."""
    seen = result.coverage
    where = (
        f"States are judged at {number(seen.moments)} moments, just before a flush"
        f" ended or the recording did; {number(seen.visited)} of them"
        f" {'has' if seen.visited == 1 else 'have'} one."
        if seen.moments > 1
        else "All states are judged at the end of the recording: no flush ended between"
        " the first ack and that moment."
    )
    yield (
        f"{where} Of the {format_count(seen.writes, 'write')} that could be lost,"
        f" {number(seen.lost)} {'was' if seen.lost == 1 else 'were'} missing from at"
        " least one state; up to"
        f" {number(seen.at_risk)} could be lost at once."
    )
    if seen.possible is not None:
        yield (
            f"{number(seen.whole)} of the states {'is' if seen.whole == 1 else 'are'}"
            " of whole writes, of about"
            f" {_count(seen.possible)} such states in all."
        )
    yield _NO_RATE
    if result.unclear:
        names = _some(result.unclear)
        yield f"Not judged: {names} ({'; '.join(result.doubts)})."


def _count(power: float) -> str:
    """Return the number whose logarithm that is, as roughly as one can say it."""
    return number(round(10**power)) if power < 6 else f"10^{power:.0f}"


def how_it_fails(finding: Finding) -> str:
    """Return the losses in the states of a finding, by kind."""
    losses, states = finding.smallest.judgement.losses, len(finding.states)
    kinds = ", ".join(losses)
    text = f"{format_count(sum(losses.values()), 'row')} lost or damaged"
    if LossKind.UNRECOVERABLE.value in losses:
        text = "the server or a table did not come back"
    text += f" ({kinds}; {format_count(states, 'state')})"
    if not finding.again:
        text += "; it did not fail again when it was judged once more"
    elif not finding.complete:
        text += "; the reduction was stopped, so less may be enough"
    return text


BLOCK_COLUMNS = ("file", "bytes", "length", "written before the cut")


def describe_state(result: StateResult) -> Iterator[str]:
    """Yield when the cut comes, and what the judged state lost."""
    found = result.judgement
    yield (
        f"A cut {result.load_s:.3f} s into the load, with {number(found.acks)} acks"
        " before it."
    )
    if found.reason:
        yield sentence(found.reason)
    for row in found.rows[:_NAMED]:
        yield (
            f"{row.kind}: {row.table} id {row.row_id} (session {row.session}, "
            f"operation {row.seq})"
        )
    if not result.lost and (text := nothing_lacking(found)):
        yield text


def nothing_lacking(judged: StateJudgement) -> str:
    """Return the conclusion from a failing state that lacks no write.

    "" if it did not fail.
    """
    if judged.verdict is not Verdict.FAIL:
        return ""
    held = "The drives hold all that was written by then"
    if set(judged.losses) <= {kind.value for kind in MISSING}:
        return f"{held}: the server had acknowledged what it had not written."
    return f"{held}, and the server did not recover from that."


def not_reduced(result: ExploreResult) -> str:
    """Return the note that names failing states in no finding, "" if there are none."""
    known = {name for finding in result.findings for name in finding.states}
    names = [name for name in result.failing if name not in known]
    if not names:
        return ""
    return (
        f"Failed, and not reduced: {_some(names)}. Only the most frequent ways to fail"
        " are reduced to few lost writes, and none after an interrupt. To see one, use"
        " --state."
    )


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {number(more)} more" if more > 0 else "")


def blocks_of(block: LostBlock) -> tuple[str, str, str, str]:
    """Return a row of the table of lost blocks."""
    name = _NOT_KNOWN if block.file is None else block.file or _NO_FILE
    if block.drive:
        name += " (log drive)"
    at = block.at if block.file else block.place
    length = f"{block.length:,} B"
    return name, f"at {at:,}", length, f"{block.age_ms:.1f} ms"
