"""Sentences of every report on a run: the terminal's, the page's, a ticket's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from dbcheck.judge.item import Status, meaning
from dbcheck.judge.result import (
    EvidenceResult,
    HousekeepingResult,
    RangeResult,
    RunResult,
)
from dbcheck.model.audited import list_alarms
from dbcheck.model.cut import CutClass, Gone, LabCut, PowerScope
from dbcheck.model.depth import Depth
from dbcheck.model.family import FAMILIES
from dbcheck.model.records import LoadRecord
from dbcheck.model.verdict import Tally, Verdict, describe_proof, format_count
from dbcheck.model.witness import Json
from dbcheck.report.drives import describe_faults, list_drive_rates
from dbcheck.report.words import copy as of_copy
from dbcheck.report.words.outage import list_facts_of_outage
from dbcheck.report.words.unexplained import where_to_look
from dbcheck.rows.loss import LossKind
from dbcheck.rows.workload import describe_processes

RANGES_SHOWN = 12
HOLDS_FOR = (
    "It holds for this server with these settings on this storage. Another drive,"
    " firmware, kernel or setting needs a check of its own."
)
NOT_A_DRIVE = "It proves how the server and the filesystem behave, not a real drive."
_SEEN = (
    "They were never acknowledged, so the server broke no promise and the verdict does"
    " not count them. But a client that read such a row may have acted on what the cut"
    " took back: the server shows rows before they are durable{}."
)
_WITHOUT_A_BINARY_LOG = ", as InnoDB does without a binary log"
_CONTROL = "This was a control: its sessions were set to lose commits."
_CONTROLS = {
    Verdict.PASS: "It shows that this check finds losses. It says nothing about the"
    " server.",
    Verdict.FAIL: "What is wrong goes beyond what that setting loses, so it counts"
    " against the server.",
    Verdict.INCONCLUSIVE: "It does not show that this check finds losses. It says"
    " nothing about the server.",
}
_ALONE = "This verdict rests on the witness alone"
_WRITE_CACHE = (
    "Write 'write back' to /sys/block/NAME/queue/write_cache of each layer named, with "
    "a udev rule so that it lasts, or switch the drive's own cache off. Where a place "
    "lay elsewhere, find out what moved it."
)
_WITNESS_KIND = {
    "ssh": "another host, over SSH",
    "file": "the client's own disk",
    "lab": "over SSH to this same host, which only a lab does",
}
_DEPTHS = {
    Depth.PROCESS: "Only the server's process ended: the page cache survived, so this"
    " says nothing about the operating system or the drive.",
    Depth.OS: "The page cache was lost. The drive's own cache was not seen to lose its"
    " content: it is non-volatile, disabled, was flushed in time, or takes no"
    " canaries.",
    Depth.DRIVE: "Page cache and the drive's volatile cache were lost.",
}

_ENDS = {
    Gone.NEVER: "it kept answering",
    Gone.BROKEN: "every connection broke",
    Gone.SILENT: "it fell silent",
    Gone.STALLED: "it fell silent, then answered again",
    Gone.UNSEEN: "the client stopped watching before it was seen",
}

# What a lab's cut leaves of the drive's cache, by the name of the kind.
KEPT_WRITES = {
    "none": "nothing",
    "all": "everything",
    "prefix": "the oldest, up to a random moment",
    "suffix": "the newest, from a random moment on",
    "torn": "the oldest, up to a random moment, and a part of the next one",
    "but-one": "all but one",
    "writes": "a random half, each as a whole or not at all",
    "pages": "a random half of their pages of 16384 bytes",
    "blocks": "a random half of their blocks of 4096 bytes",
    "random": "a random half of their sectors of 512 bytes",
}


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a heading, "" if they stand alone; note: less important, "" if none.

    lines: each a sentence or a finding of its own.
    """

    title: str
    lines: tuple[str, ...]
    note: str = ""


def headline(result: RunResult) -> str:
    """Return the verdict's sentence, which each format shows first.

    It says what was cut, and names no kind of loss: caveats() has them.
    """
    text = result.reasons[0]
    if result.verdict is Verdict.INCONCLUSIVE:
        what = "control" if result.control else "cut" if result.is_cut else "copy"
        no_count = "does not count" if result.final else "has no verdict yet"
        text = f"this {what} {no_count}: {text}"
    elif result.control and result.verdict is Verdict.FAIL:
        text = f"in a control, {text}"
    return f"in a lab, {text}" if result.lab else text


def warn_of_witness(result: RunResult) -> str:
    """Return why the verdict rests on the witness alone, "" if it does not."""
    if not result.witness_alone:
        return ""
    return f"{_ALONE}: {result.witness_alone_why}."


def caveats(result: RunResult) -> list[str]:
    """Return the caveats that a report shows with the verdict."""
    return [*_meanings(result), *result.reasons[1:]]


def _meanings(result: RunResult) -> Iterator[str]:
    """Yield each kind of loss that the run has, with its number of rows and meaning."""
    own, earlier = result.losses or {}, result.earlier_losses or {}
    for kind in LossKind:
        counts = [format_count(own[kind.value], "row")] if kind.value in own else []
        if kind.value in earlier:
            counts.append(
                f"{format_count(earlier[kind.value], 'row')} of earlier cycles"
            )
        if counts:
            named = f"{kind.value}, {' and '.join(counts)}"
            yield f"{named}: {kind.means}".replace("`", "")


def sections(result: RunResult) -> Iterator[Section]:
    """Yield what else is to be read, the causes of losses first."""
    if result.settings_at_fault:
        title = "Settings that make the server acknowledge commits too early"
        yield Section(title, result.settings_at_fault)
    if result.layers_at_fault:
        title = "Below the server: what holds flushes back, or was moved"
        yield Section(title, (*result.layers_at_fault, _WRITE_CACHE))
    yield from _seen(result)
    if lines := where_to_look(result):
        yield Section("", lines)
    if result.other_settings:
        title = "Other settings that are not safe, or not known"
        yield Section(title, result.other_settings)
    yield from _audit(result)
    if left := result.left_on_host:
        text = f"The canaries (about 22 MB in each folder) are still on {left.host}."
        yield Section("", (f"{text} Remove them with: {left.command}",))


def _seen(result: RunResult) -> Iterator[Section]:
    """Yield what is shown of rows that were seen and then lost, beside the verdict."""
    seen = result.seen
    if seen is None or not seen.lost:
        return
    ids = ", ".join(f"{row.id:,}" for row in seen.first[:RANGES_SHOWN])
    ages = [row.seen_before_cut_s for row in seen.first]
    known = [age for age in ages if age is not None]
    when = f", {_ages(max(known), min(known))} before the cut" if known else ""
    more = "" if seen.lost <= RANGES_SHOWN else ", ..."
    family = FAMILIES.get(result.family)
    means = _SEEN.format(_WITHOUT_A_BINARY_LOG if family and family.has_innodb else "")
    lost = f"{seen.lost:,} of {seen.rows:,} rows{when}; ids {ids}{more}"
    yield Section("Seen by a reader, then lost", (lost, means))


def _audit(result: RunResult) -> Iterator[Section]:
    """Yield what the audit before the load found, notes and unread facts as counts."""
    flags = result.audit or ()
    alarms = list_alarms(flags)
    if not alarms:
        return
    rest = len(flags) - len(alarms)
    more = f" It has {rest} more notes and unknown facts." if rest else ""
    note = f"Run dbcheck audit to see what each means and how to fix it.{more}"
    what = "cut" if result.is_cut else "copy"
    yield Section(f"The audit before the {what}", tuple(map(str, alarms)), note)


def facts(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of what is known of the run."""
    yield "target", f"{result.target}  ({result.server})"
    kind = "lab" if result.lab else result.witness.kind
    yield "witness", f"{result.witness.url}  ({_WITNESS_KIND.get(kind, kind)})"
    yield "run", result.folder
    if result.image:
        yield "image", f"{result.image}, the drive as the cut left it"
    shared = (
        result.workload,
        format_count(result.sessions, "session"),
        describe_processes(result.processes, result.cores),
        f"seed {result.seed}",
    )
    yield "workload", ", ".join(filter(None, shared))
    if result.housekeeping:
        yield "housekeeping", _tasks(result.housekeeping)
    if result.is_cut:
        yield "power", _describe_cut(result)
    if load := result.load:
        latency = load.latency_ms
        yield (
            "load",
            f"{sum(load.acked.values()):,} acked, {load.rate:,.0f}/s, "
            f"p50 {latency.get('p50', 0):.2f} ms, p99 {latency.get('p99', 0):.2f} ms",
        )
        yield from _drives(load)
        if ended := len(load.lost_early):
            why = load.refusals[0] if load.refusals else "their connections broke"
            yield (
                "ended early",
                f"{format_count(ended, 'session')}, not replaced: {why}",
            )
        yield from _replaced(load)
        if load.warned:
            yield (
                "warned",
                f"{load.warned:,} commits were answered with a warning and do not"
                f" count: {'; '.join(load.warnings)}",
            )
        if result.is_cut:
            yield "server's end", _ENDS[load.gone]
    if result.copy:
        yield from of_copy.list_facts(result.copy)
    if depth := result.depth:
        named = depth.depth.value if depth.depth else "unknown"
        yield "cut depth", f"{named}: {depth.reasons[0]}"
    yield from _rows(result)


def _describe_cut(result: RunResult) -> str:
    assumed = " (assumed)" if result.class_assumed else ""
    if result.power_scope is PowerScope.DRIVE:
        assumed += "; the drives alone"
    return f"{result.power}, class of the cut: {result.cut_class.value}{assumed}"


def _replaced(load: LoadRecord) -> Iterator[tuple[str, str]]:
    """Yield how many sessions broke and were replaced while the load ran, and when."""
    if (replaced := load.replaced) and replaced.sessions:
        first_s = (replaced.first_us - load.began_us) / 1e6
        last_s = (replaced.last_us - load.began_us) / 1e6
        yield (
            "replaced",
            f"{replaced.sessions:,} of the sessions, whose connections broke"
            f" {first_s:.1f} s to {last_s:.1f} s after the load began",
        )


def _drives(load: LoadRecord) -> Iterator[tuple[str, str]]:
    """Yield what the drives did; of several nodes, with the name of each."""
    for name, node in load.nodes.items():
        for rate in list_drive_rates(node.drives) if node.drives else ():
            yield "drive", f"{name}, {rate}" if len(load.nodes) > 1 else str(rate)


def _rows(result: RunResult) -> Iterator[tuple[str, str]]:
    if result.confirmed is not None and result.copy is None:
        yield (
            "rows",
            "; ".join(_survivors(result)),
        )
    if seen := result.seen:
        yield (
            "seen",
            f"{seen.rows:,} rows by readers; {seen.lost:,} of them are gone that were"
            " never acknowledged",
        )
    if gone := result.earlier_losses:
        lost = ", ".join(f"{rows:,} {kind}" for kind, rows in gone.items())
        yield "earlier rows", f"{lost}, {result.earlier:,} still there"
    if result.outage:
        yield from list_facts_of_outage(result.outage)


def _survivors(result: RunResult) -> Iterator[str]:
    """Yield how many acknowledged commits survived, and which other rows did."""
    yield f"{result.kept:,} of {result.confirmed:,} acknowledged commits intact"
    if result.recovered:
        yield (
            f"{result.recovered:,} more survived that were never acknowledged, which is"
            " allowed"
        )
    if result.unconfirmed:
        yield (
            f"{result.unconfirmed:,} more whose acknowledgement the witness had not"
            " confirmed, which count neither way"
        )


def _tasks(housekeeping: HousekeepingResult) -> str:
    done = ", ".join(f"{count:,} {kind}" for kind, count in housekeeping.done.items())
    at_cut = housekeeping.at_cut
    what = f"during {at_cut.value}" if at_cut else "between two housekeeping tasks"
    if housekeeping.ended_early:
        what = "after the housekeeping session had ended"
    return f"the cut came {what}; before it {done or 'no housekeeping task was done'}"


_RANGE_COLUMNS = ("kind", "table", "ids", "rows")
RIGHT_COLUMNS = ("rows", "acked before the cut")


def range_columns(result: RunResult) -> tuple[str, ...]:
    """Return the names of the columns of a table of losses."""
    acked = "acked before the cut" if result.is_cut else "acked"
    return (*_RANGE_COLUMNS, acked)


def list_ranges(result: RunResult) -> list[tuple[str, ...]]:
    """Return the ranges of losses that are shown, as range_columns() names them."""
    ages = _ages if result.is_cut else partial(of_copy.describe_ages, result)
    return [_range_cells(span, ages) for span in result.ranges[:RANGES_SHOWN]]


def _range_cells(
    span: RangeResult, ages: Callable[[float | None, float | None], str]
) -> tuple[str, ...]:
    first, last = span.first_id, span.last_id
    return (
        span.kind.value,
        span.table,
        f"{first:,}" if first == last else f"{first:,} - {last:,}",
        f"{span.rows:,}",
        ages(span.first_acked_before_cut_s, span.last_acked_before_cut_s),
    )


def ranges_note(result: RunResult) -> str:
    """Return the note on losses that are not shown, with the file that has them all.

    "" if all are shown and none is stored.
    """
    left = len(result.ranges) - RANGES_SHOWN + result.ranges_left_out
    notes = [f"{left:,} more ranges."] if left > 0 else []
    if result.stored:
        file = f"{result.folder}/losses.csv"
        notes.append(f"All of them, with their ack times: {file}")
    return " ".join(notes)


def _ages(first_s: float | None, last_s: float | None) -> str:
    if first_s is None or last_s is None:
        return "-"
    if f"{first_s:.3f}" == f"{last_s:.3f}":
        return f"{first_s:.3f} s"
    return f"{first_s:.3f} - {last_s:.3f} s"


def lab_scope(lab: Json) -> str:
    """Return the sentences on the scope of cycles in a lab with that spec."""
    if lab.get("cut") == LabCut.PROCESS.value:
        return (
            "Scope: the server process was killed. Only its memory was lost, so this "
            "says nothing about the operating system or the drive."
        )
    found = lab.get("drive")
    drive = found if isinstance(found, Mapping) else {}  # it may have been forged
    above = "and all that is above it"
    if lab.get("power_scope") == PowerScope.DRIVE.value:
        above = "alone, under a host that kept running"
    what = "virtual drive"
    if lab.get("cluster"):
        what = "virtual drives of the nodes that were cut"
        above = "and all that is above them"
    parts = [f"Scope: only a power loss of the lab's {what} {above} was tested."]
    wrong = "; ".join(describe_faults(drive))
    if wrong:
        parts.append(f"That drive breaks its promise: {wrong}.")
    if (kind := str(drive.get("kept_writes"))) in KEPT_WRITES:
        lost = "no flush covered" if wrong else "were not flushed"
        parts.append(f"Of the writes that {lost}, each cut left {KEPT_WRITES[kind]}.")
    parts.append(NOT_A_DRIVE)
    return " ".join(parts)


def scope(result: RunResult) -> str:
    """Return the scope of the run, and its limits."""
    if result.copy:
        return of_copy.describe_scope(result)
    unseen = result.load is None and result.verdict is Verdict.INCONCLUSIVE
    if result.uncut or unseen:
        return f"{_NO_CUT} {_IN_A_LAB}" if result.lab else _NO_CUT
    if result.lab:
        return lab_scope(result.lab)
    depth, cut = result.shown_depth, result.cut_class
    shown = "How deep it went was not measured"
    # No host is asked about a failover, whatever flags are given.
    shown += "." if cut is CutClass.FAILOVER else ": add --target-host."
    if result.depth:
        shown = "How deep it went could not be measured."
    if depth is not None:
        shown = _DEPTHS[depth]
    if not cut.reaches_drives and depth is not Depth.DRIVE:
        left_open = cut.leaves_open(None)
        shown = f"What was cut: {cut.description}; {left_open}. {shown}"
    if result.power_scope is PowerScope.DRIVE:
        shown = f"The drives alone lost their power, and the host kept its own. {shown}"
    return f"Scope: only one cut was made. {shown}"


def proof(result: RunResult) -> str:
    """Return the sentences on how much this one cut proves.

    Of a control they are on what it shows.
    """
    if result.control:
        return f"{_CONTROL} {_CONTROLS[result.verdict]}"
    if result.copy:
        return of_copy.prove(result)
    if result.lost_without_cut:
        return _LOST_WITHOUT_CUT
    counts = result.verdict is not Verdict.INCONCLUSIVE
    proven = describe_proof(result.verdict is Verdict.FAIL, counts)
    if result.verdict is Verdict.PASS and (left_open := _leaves_open(result)):
        return f"{proven} {left_open}"
    return proven


def _leaves_open(result: RunResult) -> str:
    """Return the sentence on what such cuts never test, however many pass."""
    cut, depth = result.cut_class, result.shown_depth
    if depth is Depth.PROCESS:
        return _DEPTHS[depth]
    left_open = "" if cut.reaches_drives else cut.leaves_open(depth)
    return left_open and sentence(left_open)


_NO_CUT = "Scope: no power cut is on record, so this says nothing about power cuts."
_IN_A_LAB = "A lab's drive is not a real drive."
_LOST_WITHOUT_CUT = (
    "Commits must survive whatever stops the server. How often power cuts lose is not"
    " shown."
)


_SHORTFALLS = {
    Status.ASSUMED: "Assumed, not seen",
    Status.NOT_OBSERVABLE: "Could not be checked",
}


def limits(result: RunResult) -> Iterator[str]:
    """Yield what the verdict does not cover."""
    covered = scope(result).removeprefix("Scope: ")
    yield covered[0].upper() + covered[1:]
    for status, text in _SHORTFALLS.items():
        items = [one.item.value for one in result.evidence if one.status is status]
        if items:
            yield f"{text}: {', '.join(items)}."
    for one in result.evidence:
        if one.status is Status.ABSENT:
            means = meaning(one.item, one.status)
            yield sentence(means or one.reason)
    if unchecked := _count_unchecked_acks(result):
        acks = format_count(unchecked, "more acknowledgement")
        yield (
            f"{acks} reached the client but not the witness before the cut. A loss of"
            " such a commit is not seen."
        )
    if result.unconfirmed and not result.copy:
        yield (
            f"{format_count(result.unconfirmed, 'more row')} survived whose"
            " acknowledgement"
            " the witness had not confirmed at the cut. They count neither way."
        )
    yield from of_copy.LIMITS if result.copy else (HOLDS_FOR,)


def _count_unchecked_acks(result: RunResult) -> int:
    """Return the number of acks that the client got and the witness does not hold."""
    if result.load is None or result.confirmed is None or result.copy:
        return 0  # a copy need not have all that the witness holds
    return max(0, sum(result.load.acked.values()) - result.confirmed)


_WRONG_FIRST = (
    *(Status.CONTRADICTED, Status.ABSENT, Status.NOT_OBSERVABLE),
    *(Status.ASSUMED, Status.PRESENT),
)


def list_evidence(result: RunResult) -> list[EvidenceResult]:
    """Return the items of evidence, what is wrong or missing first."""
    return sorted(result.evidence, key=lambda one: _WRONG_FIRST.index(one.status))


def explained(item: EvidenceResult) -> str:
    """Return the reason of an item, after its consequence for the cut if it has one."""
    fine = item.status in (Status.PRESENT, Status.ASSUMED)
    means = "" if fine else meaning(item.item, item.status)
    return f"{means}: {item.reason}" if means else item.reason


def tally(*results: RunResult) -> Tally:
    """Return the Tally of the cycles with these results; a loss needs a cut for it.

    A cycle that took a copy made no cut.
    """
    return Tally.of(
        (result.verdict, depth_of(result))
        for result in results
        if not result.lost_without_cut and result.copy is None
    )


def depth_of(result: RunResult) -> str:
    """Return the name of the depth of a result's cut, "" if it is not known."""
    return result.shown_depth.value if result.shown_depth else ""


def sentence(text: str) -> str:
    """Return *text* with a full stop, and a capital letter if it begins with a word.

    A setting or a server keeps its name as it is.
    """
    first = text.partition(" ")[0].rstrip(",:;.")
    begin = text[:1].upper() if first.isalpha() else text[:1]
    return f"{begin}{text[1:].removesuffix('.')}."


def with_id(text: str, error_id: str | None) -> str:
    """Return the text of an error with its id, which scripts compare, if it has one."""
    return f"{text} [{error_id}]" if error_id else text


def number(value: int | None) -> str:
    """Return a count, "-" if it is not known."""
    return "-" if value is None else f"{value:,}"


def lost_in(result: RunResult) -> str:
    """Return a count of the rows that were lost in a cycle.

    "all" if the server or the table did not come back, "-" if no rows were compared.
    """
    if result.rows_lost is None:
        return "all" if result.verdict is Verdict.FAIL else "-"
    return rows_lost(*result.rows_lost)


def rows_lost(own: int, earlier: int) -> str:
    """Return a count of lost rows; those of earlier cycles stand by themselves."""
    return f"{own:,} + {earlier:,} earlier" if earlier else number(own)
