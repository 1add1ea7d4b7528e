"""A report as Markdown, for a ticket: GitHub's kind, which most trackers show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dbcheck.judge.checks import HistoryResult
from dbcheck.judge.item import Status
from dbcheck.judge.results import (
    CampaignResult,
    CampaignsResult,
    ComparedResult,
    MatrixResult,
)
from dbcheck.model.explored import ExploreResult
from dbcheck.report.lossshape import DIAGNOSIS_TITLE, SHAPE_TITLE, list_axes
from dbcheck.report.subject import RunSubject, Subject, quote_all_texts
from dbcheck.report.words import campaign as of_campaign
from dbcheck.report.words import campaign_table
from dbcheck.report.words import cluster as of_cluster
from dbcheck.report.words import compare as of_compare
from dbcheck.report.words import explored as of_explored
from dbcheck.report.words import history as of_history
from dbcheck.report.words import matrix as of_matrix
from dbcheck.report.words import promises as of_promises
from dbcheck.report.words import run as of_run
from dbcheck.report.words.summary import Summary, Tile, summarize_run

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!@$&])")
_BLOCK = re.compile(r"^(\d{0,9})([-+=.)])(?=[ =-]|$)")  # begins a list, or is a rule
# What a word has that a renderer makes a link or a picture of by itself, which a
# backslash does not prevent: addresses (GitHub Flavored Markdown 0.29, 6.9) and bare
# names of hosts; what trackers look for in the finished page: @name, #1, !1, %1, ~1,
# a commit, KEY-1, :smile:.  They leave code as it is.
_LINKED = re.compile(
    r"@|://|\w\.[A-Za-z]{2}|(?i:www\.)|[#!$%&~]\w|:[\w+-]+:"
    r"|\b[0-9A-Fa-f]{7,}\b|\b[A-Za-z]\w*-\d"
)
_MARKS = {
    Status.PRESENT: "yes",
    Status.ASSUMED: "assumed",
    Status.ABSENT: "**no**",
    Status.CONTRADICTED: "**contradicted**",
    Status.NOT_OBSERVABLE: "not observable",
}


def format_markdown(subject: Subject) -> str:
    """Return the report; no foreign text in it is taken for Markdown or HTML."""
    subject = quote_all_texts(subject)
    if isinstance(subject, RunSubject):
        lines = _format_run(subject)
    elif isinstance(subject, CampaignsResult):
        lines = _format_campaigns(subject)
    elif isinstance(subject, MatrixResult):
        lines = _format_matrix(subject)
    elif isinstance(subject, ExploreResult):
        lines = _format_exploration(subject)
    elif isinstance(subject, HistoryResult):
        lines = _format_history(subject)
    else:
        lines = _format_comparison(subject)
    return "\n".join(lines).rstrip() + "\n"


def _format_run(subject: RunSubject) -> Iterator[str]:
    result = subject.result
    summary = summarize_run(result)
    yield from _format_summary(summary)
    yield from _format_cause(subject)
    yield from _format_tiles(summary.tiles)
    if result.cluster:
        yield from (f"## {of_cluster.TITLE}", "")
        nodes = of_cluster.list_nodes(result)
        yield from _format_table(of_cluster.COLUMNS, nodes)
        facts = of_cluster.list_facts(result.cluster)
        yield from _format_table(("what", "value"), facts)
    yield from ("## What this does not prove", "")
    yield from _format_items(of_run.limits(result))
    yield from _format_losses(subject)
    yield from ("## The run", "")
    yield from _format_table(("what", "value"), of_run.facts(result))
    yield from ("## Evidence", "")
    rows = (
        (item.item.value, item.status, of_run.explained(item), item.required)
        for item in of_run.list_evidence(result)
    )
    yield from ("| item | seen | how | needed for a PASS |", "|---|---|---|---|")
    for name, status, reason, required in rows:
        needed = "yes" if required else "no"
        cells = (_escape_text(name), _MARKS[status], _escape_text(reason), needed)
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from _format_steps(subject)


def _format_summary(summary: Summary) -> Iterator[str]:
    """Yield the first box: a heading, and what it proves, asks for and is about."""
    yield f"# {summary.badge}: {_escape_text(summary.headline)}"
    yield ""
    for text in filter(None, (summary.warning, summary.detail, summary.proof)):
        yield from (_escape_text(text), "")
    yield from (f"**Next:** {_escape_text(summary.action)}", "")
    if summary.about:
        yield from _format_table(("", ""), summary.about)


def _format_tiles(tiles: Sequence[Tile]) -> Iterator[str]:
    if tiles:
        cells = ((tile.name, tile.value, tile.note) for tile in tiles)
        yield from _format_table(("figure", "value", "of what"), cells)


def _format_cause(subject: RunSubject) -> Iterator[str]:
    result = subject.result
    yield from _format_items(of_run.caveats(result))
    yield from _format_items([subject.note] if subject.note else [])
    if result.diagnosis:
        yield from (f"## {DIAGNOSIS_TITLE}", "")
        for number, one in enumerate(result.diagnosis, 1):
            text = f"{one.reason} (can explain {one.losses:,})"
            yield f"{number}. **{_escape_text(one.cause.value)}**: {_escape_text(text)}"
        yield ""
    for section in of_run.sections(result):
        if section.title:
            yield from (f"## {_escape_text(section.title)}", "")
        yield from _format_items((*section.lines, *filter(None, [section.note])))


def _format_losses(subject: RunSubject) -> Iterator[str]:
    result = subject.result
    if result.ranges:
        yield from ("## Losses, by id", "")
        columns = of_run.range_columns(result)
        yield from _format_table(columns, of_run.list_ranges(result))
        yield from (_escape_text(of_run.ranges_note(result)), "")
    if result.shape is not None:
        yield from (f"## {SHAPE_TITLE}", "")
        yield from _format_table(
            ("class", "lost, of those acked"), list_axes(result.shape)
        )


def _format_steps(subject: RunSubject) -> Iterator[str]:
    if subject.steps:
        yield from ("## How to check and repeat this", "")
    for step in subject.steps:
        yield from (
            f"{_escape_text(step.what)}:",
            "",
            f"    {_join_lines(step.command)}",
            "",
        )


def _format_campaigns(subject: CampaignsResult) -> Iterator[str]:
    results = subject.targets
    if len(results) > 1:
        yield from _format_summary(of_campaign.summarize_campaigns(subject))
        with_price = campaign_table.has_price(results)
        rows = (
            (*campaign_table.cells(result, with_price=with_price), result.verdict.value)
            for result in results
        )
        yield from _format_table((*campaign_table.columns(results), "verdict"), rows)
    for result in results:
        yield from _format_campaign(result)
    if subject.groups:
        yield from (f"## {of_campaign.GROUPS}", "")
        yield from _format_items(of_campaign.groups(subject))
    yield f"All files: {_escape_text(subject.folder)}"


def _format_campaign(result: CampaignResult) -> Iterator[str]:
    summary = of_campaign.summarize_campaign(result)
    yield from _format_summary(summary)
    if result.promises:
        yield from (f"## {of_promises.TITLE}", "")
        found = of_promises.list_rows(result)
        rows = ((*cells, verdict.value) for cells, verdict in found)
        yield from _format_table((*of_promises.COLUMNS, "verdict"), rows)
        yield from (_escape_text(of_promises.NOTE), "")
        yield from _format_items(of_promises.list_times(result))
    yield from _format_items(of_campaign.lines(result))
    yield from _format_tiles((*summary.tiles, *of_campaign.list_rates(result)))
    yield from ("## What this does not prove", "")
    yield from _format_items(of_campaign.limits(result))
    yield from ("## Cycles", "")
    cycles = (
        (*campaign_table.cycle_cells(cycle), cycle.verdict.value)
        for cycle in result.cycles
    )
    yield from _format_table((*campaign_table.CYCLE_COLUMNS, "verdict"), cycles)


def _format_matrix(result: MatrixResult) -> Iterator[str]:
    yield from _format_summary(of_matrix.summarize_matrix(result))
    yield from _format_items(filter(None, [result.description]))
    for notes in (of_matrix.faults, of_matrix.doubts):
        yield from _format_items(notes(result))
    rows = (
        (*of_matrix.cells(row, result), verdict.value if verdict else "none")
        for row in result.rows
        for verdict in [row.shown_verdict]
    )
    yield from _format_table((*of_matrix.columns(result), "verdict"), rows)
    yield from _format_items(of_matrix.list_notes(result))
    yield from _format_items(of_matrix.proofs(result))
    for scope in of_matrix.scopes(result):
        yield from (_escape_text(scope), "")
    yield f"Seed: {result.seed}"


def _format_exploration(result: ExploreResult) -> Iterator[str]:
    summary = of_explored.summarize_exploration(result)
    yield from _format_summary(summary)
    yield from _format_tiles(summary.tiles)
    for finding in result.findings:
        smallest = finding.smallest
        yield from (f"## {_escape_text(finding.name)}", "")
        yield from _format_items(of_explored.describe_state(smallest))
        if smallest.lost:
            rows = map(of_explored.blocks_of, smallest.lost)
            yield from _format_table(of_explored.BLOCK_COLUMNS, rows)
    yield from _format_items(filter(None, [of_explored.not_reduced(result)]))
    yield from ("## What this does not prove", "")
    yield from _format_items(of_explored.coverage_sentences(result))
    yield from (_escape_text(of_explored.SCOPE), "")
    for what, command in of_explored.list_commands(result):
        yield from (f"{_escape_text(what)}:", "", f"    {_join_lines(command)}", "")


def _format_history(result: HistoryResult) -> Iterator[str]:
    yield from _format_summary(of_history.summarize_history(result))
    for server in result.servers:
        yield from (f"## {_escape_text(of_history.name_server(server.target))}", "")
        yield from _format_items(of_history.lines(server))
        yield from _format_table(
            (*of_history.COLUMNS, "verdict"), of_history.list_rows(server)
        )
    yield from _format_items(of_history.notes(result))


def _format_comparison(result: ComparedResult) -> Iterator[str]:
    yield from _format_summary(of_compare.summarize_comparison(result))
    yield from _format_items(of_compare.findings(result))
    yield from _format_table(of_compare.COLUMNS, of_compare.rows(result))
    if result.differences:
        yield from ("## Configured differently", "")
        yield from _format_table(of_compare.COLUMNS, of_compare.differences(result))
    yield of_compare.same(result)


def _format_items(lines: Iterable[str]) -> Iterator[str]:
    listed = [f"- {_escape_text(line)}" for line in lines]
    if listed:
        yield from (*listed, "")


def _format_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(map(_escape_text, row))} |"
    yield ""


def _join_lines(text: str) -> str:
    return " ".join(text.split("\n"))


def _escape_text(text: str) -> str:
    """Return *text* as one line in which nothing has a meaning to Markdown."""
    words = _join_lines(text).strip(" ").split(" ")
    return _BLOCK.sub(r"\1\\\2", " ".join(map(_escape_word, words)))


def _escape_word(word: str) -> str:
    # A cell ends at a bar even in code, and a backslash before it shows elsewhere.
    return r"\|".join(map(_escape_part, word.split("|")))


def _escape_part(text: str) -> str:
    if not _LINKED.search(text):
        return _SPECIAL.sub(r"\\\1", text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " * (text.startswith("`") or text.endswith("`"))
    return f"{fence}{space}{text}{space}{fence}"
