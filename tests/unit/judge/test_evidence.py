from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dbcheck.config import workload_file
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status, doubt_of
from dbcheck.judge.load_and_witness import (
    judge_load_at_the_cut,
    judge_log_since_checkpoint,
    judge_witness_at_the_cut,
)
from dbcheck.judge.server import (
    judge_restarted,
    judge_same_server,
    judge_same_settings,
    judge_same_tables,
)
from dbcheck.judge.verdict import judge_rows, judge_unrecoverable
from dbcheck.model.cut import Cut, CutClass, Gone
from dbcheck.model.depth import Depth
from dbcheck.model.records import LoadRecord
from dbcheck.model.server import LogPosition
from dbcheck.model.unobserved import Observed
from dbcheck.model.verdict import Verdict, find_worst
from dbcheck.model.watched import WatchTally, make_facts_of_tables
from dbcheck.model.witness import CUT_EVENT, LogFacts, WindowFacts
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.table import LEDGER, PLAIN, Definition, TableFacts
from tests.kit.cases import case, loaded, of_servers
from tests.kit.nodes import having
from tests.kit.samples import CLEAN, FACTS

GOOD = loaded()
LOST = dataclasses.replace(
    CLEAN,
    kept=99,
    losses=Losses.of([Loss(LossKind.MISSING_TAIL, 1, 9, 9, 5, LEDGER.name)]),
)
SAME = Item(ItemId.SAME_SERVER, Status.PRESENT, "", True)
OTHER = Item(ItemId.SAME_SERVER, Status.CONTRADICTED, "another server answers", True)


def sent_at(*sent_us: int) -> LoadRecord:
    """Return a load whose newest acked operations were sent then, one of each log."""
    seen = tuple(Observed(GOOD.last_ack_us, sent_us=at_us) for at_us in sent_us)
    return dataclasses.replace(GOOD, observed=seen)


def same(before: Mapping[str, str], after: Mapping[str, str]) -> Item:
    """Judge two identities."""
    item = judge_same_server(of_servers({"identity": before}, {"identity": after}))
    assert item is not None
    return item


def settings(before: Mapping[str, str], *later: tuple[str, Mapping[str, str]]) -> Item:
    """Judge settings; *later* are those just before the cut, and those after it."""
    *load, (_, now) = later
    both = of_servers({"settings": before}, {"settings": now})
    known = loaded(settings=load[0][1]) if load else None
    item = judge_same_settings(dataclasses.replace(both, load=known))
    assert item is not None
    return item


def tables(before: Mapping[str, str], after: Mapping[str, str]) -> list[Item]:
    """Judge the identities of tables; [] if nothing can be said of them."""
    held = {name: TableFacts({}, 0, identity=known) for name, known in before.items()}
    now = {name: TableFacts({}, 0, identity=known) for name, known in after.items()}
    both = case(after={"facts": FACTS, "tables": now})
    both = dataclasses.replace(
        both,
        manifest=dataclasses.replace(
            both.manifest,
            tables=held,
            workload=workload_file.load("insert" if len(held) == 1 else "mixed"),
        ),
    )
    item = judge_same_tables(both)
    return [] if item is None else [item]


def test_a_load_that_the_server_refused_says_why_no_cut_was_seen() -> None:
    """As by a full disk, while somebody is on the way to the plug."""
    full = "the server refused a commit: 1114: The table 'ledger' is full"
    load = dataclasses.replace(GOOD, gone=Gone.NEVER, refusals=(full,))
    item = judge_load_at_the_cut(case(load=load))
    assert item.reason == f"the server kept answering: no cut; {full}"


@pytest.mark.parametrize(
    ("load", "status"),
    [
        pytest.param(GOOD, Status.PRESENT, id="acks until the cut"),
        pytest.param(None, Status.NOT_OBSERVABLE, id="the client was lost"),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=None), Status.ABSENT, id="no ack"
        ),
        pytest.param(
            dataclasses.replace(GOOD, gone=Gone.NEVER),
            Status.CONTRADICTED,
            id="not gone",
        ),
        pytest.param(
            dataclasses.replace(GOOD, gone=Gone.STALLED),
            Status.CONTRADICTED,
            id="stall",
        ),
        pytest.param(
            dataclasses.replace(GOOD, gone=Gone.UNSEEN),
            Status.NOT_OBSERVABLE,
            id="the witness failed first",
        ),
        pytest.param(
            having(GOOD, cut=None),
            Status.ABSENT,
            id="it went by itself",
        ),
        pytest.param(dataclasses.replace(GOOD, in_flight=0), Status.ABSENT, id="idle"),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=9_000_000),
            Status.ABSENT,
            id="last ack a second old",
        ),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=9_000_001),
            Status.PRESENT,
            id="last ack just younger than a second",
        ),
        pytest.param(
            having(GOOD, cut=None, cut_failed="it did not answer"),
            Status.NOT_OBSERVABLE,
            id="moment unknown",
        ),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=10_000_500),
            Status.PRESENT,
            id="a reply that was under way at the cut",
        ),
        pytest.param(sent_at(9_000_001), Status.PRESENT, id="just sent"),
        pytest.param(sent_at(9_000_000), Status.ASSUMED, id="sent a second before"),
        pytest.param(sent_at(8_000_000), Status.ABSENT, id="sent two before"),
        pytest.param(
            sent_at(8_000_000, 9_500_000), Status.PRESENT, id="another log's just"
        ),
    ],
)
def test_at_risk(load: LoadRecord | None, status: Status) -> None:
    item = judge_load_at_the_cut(case(load=load))
    assert (item.status, item.required) == (status, True)


@pytest.mark.parametrize(
    ("newest_us", "cut_us", "status"),
    [
        pytest.param(9_500_000, 10_000_000, Status.PRESENT, id="young"),
        pytest.param(9_000_001, 10_000_000, Status.PRESENT, id="just young"),
        pytest.param(9_000_000, 10_000_000, Status.ABSENT, id="a second old"),
        pytest.param(10_000_500, 10_000_000, Status.PRESENT, id="read after the cut"),
        pytest.param(None, 10_000_000, Status.ABSENT, id="not one"),
        pytest.param(9_500_000, None, Status.NOT_OBSERVABLE, id="moment unknown"),
    ],
)
def test_held_at_the_cut(
    newest_us: int | None, cut_us: int | None, status: Status
) -> None:
    cut = None if cut_us is None else Cut(1, cut_us)
    held = LogFacts(1, 1, 0, newest_us, ())
    load = loaded(cut=cut, gone_us=None)
    item = judge_witness_at_the_cut(dataclasses.replace(case(load=load), logs=(held,)))
    assert item is not None
    assert (item.status, item.required) == (status, True)


def test_a_witness_whose_clock_was_set_holds_nothing_young() -> None:
    """Its clock alone dates the acks of several machines; planted: it was set."""
    held = LogFacts(1, 1, 0, 9_500_000, ())
    of_run = case(load=loaded(cut=Cut(1, 10_000_000), gone_us=None))
    run = dataclasses.replace(of_run, logs=(held,), clock_set="it was set by 5 s")
    item = judge_witness_at_the_cut(run)
    assert item is not None
    assert (item.status, item.required) == (Status.NOT_OBSERVABLE, True)
    assert item.reason.startswith("it was set by 5 s")


@pytest.mark.parametrize(
    ("after_us", "error_us", "status"),
    [
        pytest.param(5_000_000, 0, Status.CONTRADICTED, id="same start"),
        pytest.param(5_000_001, 0, Status.PRESENT, id="later start"),
        pytest.param(
            6_900_000, 1_000_000, Status.CONTRADICTED, id="within the clocks' errors"
        ),
        pytest.param(7_100_000, 1_000_000, Status.PRESENT, id="beyond them"),
        pytest.param(4_000_000, 0, Status.PRESENT, id="its clock went back"),
    ],
)
def test_restarted(after_us: int, error_us: int, status: Status) -> None:
    error = {"started_error_us": error_us}
    item = judge_restarted(
        of_servers(
            {"started_us": 5_000_000, **error}, {"started_us": after_us, **error}
        )
    )
    assert item is not None
    assert item.status is status


def test_a_person_who_cut_another_host_is_told_to_pull_its_plug() -> None:
    same_start = {"started_us": 5_000_000}
    by_hand = loaded(cut=Cut(None, None))
    judged = dataclasses.replace(of_servers(same_start, same_start), load=by_hand)
    item = judge_restarted(judged)
    assert item is not None
    assert item.status is Status.CONTRADICTED
    assert "pull the plug of this very host" in doubt_of(item)
    assert "dbcheck power test" not in doubt_of(item)


def test_another_identity_is_another_server() -> None:
    before = {"server_uuid": "a", "datadir": "/d"}
    after = {"server_uuid": "b", "datadir": "/d"}
    assert same(before, before).status is Status.PRESENT
    other = same(before, after)
    assert other.status is Status.CONTRADICTED
    assert "server_uuid was a and is b" in other.reason
    assert same({}, after).status is Status.NOT_OBSERVABLE


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param({}, {}, "let the account execute pg_control_system(),", id="none"),
        pytest.param(
            {"server_id": "1"}, {"server_id": "1"}, "nothing that names", id="host only"
        ),
        pytest.param(
            {"server_id": "1", "dbcheck.identity": "a"},
            {"server_id": "1"},
            "dbcheck.identity was read before the cut and could not be read after it",
            id="not read again",
        ),
        pytest.param(
            {"server_version_num": "150001", "database": "d"},
            {"server_version_num": "150001", "database": "d", "system_identifier": "7"},
            "nothing that names its data was read before the cut",
            id="read only after",
        ),
    ],
)
def test_without_the_name_of_the_data_it_may_be_another_server(
    before: dict[str, str], after: dict[str, str], said: str
) -> None:
    item = same(before, after)
    assert (item.status, item.required) == (Status.NOT_OBSERVABLE, True)
    assert said in item.reason


def test_a_promoted_standby_is_called_a_failover() -> None:
    before = {"data_directory": "/a", "system_identifier": "7", "timeline": "1"}
    after = {"data_directory": "/b", "system_identifier": "7", "timeline": "2"}
    item = same(before, after)
    assert item.status is Status.CONTRADICTED
    assert "timeline was 1 and is 2: a failover" in item.reason
    stranger = same(before, {**after, "system_identifier": "8"})
    assert "a different server" in stranger.reason


def test_a_load_that_a_lagging_witness_holds_back_is_not_called_idle() -> None:
    load = loaded(in_flight=0, windows=(WindowFacts(10, 0.5),))
    held = case(load=load)
    assert judge_load_at_the_cut(held).status is Status.ABSENT
    assert "the witness lagged" in judge_load_at_the_cut(held).reason
    assert "idle" not in judge_load_at_the_cut(held).reason


def test_a_changed_setting_is_seen() -> None:
    before = {"fsync": "on", "synchronous_commit": "on"}
    after = before | {"synchronous_commit": "off"}
    same, other = ("before the cut", before), ("after it", after)
    assert settings(before, same, same).status is Status.PRESENT
    for later in ((same, other), (other, same)):
        item = settings(before, *later)
        assert item.status is Status.CONTRADICTED
        assert "synchronous_commit was on, and off" in item.reason


def test_settings_that_were_read_long_before_the_cut_are_dated() -> None:
    """The cut of loaded() comes at 10 s."""
    both = of_servers({"settings": {"fsync": "on"}}, {"settings": {"fsync": "on"}})
    reasons = []
    for settings_us in (9_000_000, 2_500_000, None):
        load = loaded(settings={"fsync": "on"}, settings_us=settings_us)
        item = judge_same_settings(dataclasses.replace(both, load=load))
        assert item is not None and item.status is Status.PRESENT
        reasons.append(item.reason)
    assert ["7.5 s before the cut" in reason for reason in reasons] == [
        *(False, True, False)
    ]


def test_only_settings_that_were_read_again_are_called_the_same() -> None:
    before = {"fsync": "on", "synchronous_commit": "on"}
    unread: tuple[str, dict[str, str]] = ("before the cut", {})
    some = ("after the cut", {"fsync": "on"})
    item = settings(before, some)
    assert item.status is Status.ASSUMED
    assert "synchronous_commit" in item.reason
    item = settings({"fsync": "on"}, ("after the cut", before))
    assert item.status is Status.ASSUMED, "it was not known before"
    item = settings(before, unread)
    assert item.status is Status.NOT_OBSERVABLE


def items(*statuses: Status) -> list[Item]:
    return [
        Item(ItemId.LOAD, status, "because of the load", True) for status in statuses
    ]


DRIVE_LOST = "the drive's cache was lost"


def test_a_pass_names_its_depth() -> None:
    deep = judge_rows(CLEAN, [SAME], CutClass.AC, Depth.DRIVE)
    assert deep.reasons == (
        "all 100 acknowledged commits survived this AC power cut (the drive's cache was"
        " lost, too)",
    )
    unknown = judge_rows(CLEAN, [SAME], CutClass.AC).reasons[0]
    assert unknown.endswith("this AC power cut (how deep it went was not measured)")


@pytest.mark.parametrize("depth", [None, Depth.OS])
@pytest.mark.parametrize(
    "cut",
    [CutClass.BMC_OFF, CutClass.HYPERVISOR_KILL, CutClass.RESET, CutClass.UNKNOWN],
)
def test_a_pass_leaves_open_what_its_switch_may_keep_powered(
    cut: CutClass, depth: Depth | None
) -> None:
    said, left_open = judge_rows(CLEAN, [SAME], cut, depth).reasons
    assert cut.description in said
    assert DRIVE_LOST not in said
    about = "says nothing about (their caches|them or about the drives)"
    assert re.search(about, left_open)
    seen, *left_open_then = judge_rows(CLEAN, [SAME], cut, Depth.DRIVE).reasons
    assert (DRIVE_LOST in seen) is not cut.keeps_power
    assert bool(left_open_then) is cut.keeps_power


def test_a_pass_names_what_is_only_assumed() -> None:
    (item,) = items(Status.ASSUMED)
    judgement = judge_rows(CLEAN, [SAME, item], CutClass.AC, Depth.OS)
    assert judgement.verdict is Verdict.PASS
    claim, details = judgement.reasons
    assert claim.endswith("; assumed, not seen: load at the cut")
    assert details == "assumed, not seen: load at the cut (because of the load)"


@pytest.mark.parametrize(
    ("begun", "before", "status", "said"),
    [
        pytest.param(
            (100, 90), (500, 90), Status.PRESENT, "all 7 acks", id="no checkpoint"
        ),
        pytest.param(
            (100, 90), (500, 400), Status.PRESENT, "100 bytes", id="one meanwhile"
        ),
        pytest.param(
            (100, 90), (500, 500), Status.ABSENT, "checkpointed", id="one just now"
        ),
    ],
)
def test_what_was_written_since_the_checkpoint(
    begun: tuple[int, int], before: tuple[int, int], status: Status, said: str
) -> None:
    item = judge_log_since_checkpoint(
        case(load=loaded(log=(LogPosition(*begun), LogPosition(*before)), acked={1: 7}))
    )
    assert item is not None
    assert item.status is status
    assert said in item.reason
    assert ("acks" in item.reason) == (begun[1] == before[1])


def test_a_clean_cycle_passes() -> None:
    judgement = judge_rows(CLEAN, [SAME, *items(Status.PRESENT)])
    assert judgement.verdict is Verdict.PASS


@pytest.mark.parametrize(
    "status", [s for s in Status if s not in (Status.PRESENT, Status.ASSUMED)]
)
def test_no_pass_without_its_evidence(status: Status) -> None:
    judgement = judge_rows(CLEAN, [SAME, *items(status)])
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "because of the load" in judgement.reasons[0]


def test_an_item_that_is_not_required_may_be_unobservable_but_not_contradicted() -> (
    None
):
    optional = Item(ItemId.PLACES, Status.NOT_OBSERVABLE, "", False)
    assert judge_rows(CLEAN, [optional]).verdict is Verdict.PASS
    against = dataclasses.replace(optional, status=Status.CONTRADICTED)
    assert judge_rows(CLEAN, [against]).verdict is Verdict.INCONCLUSIVE


def test_no_pass_without_acks() -> None:
    nothing = dataclasses.replace(CLEAN, confirmed=0, kept=0)
    assert judge_rows(nothing, [SAME]).verdict is Verdict.INCONCLUSIVE


def test_a_loss_fails_however_thin_the_evidence() -> None:
    judgement = judge_rows(LOST, items(Status.NOT_OBSERVABLE))
    assert judgement.verdict is Verdict.FAIL
    assert len(judgement.reasons) == 1
    assert " lost 1 of the 100 commits " in judgement.reasons[0]


def test_another_server_is_never_accused() -> None:
    judgement = judge_rows(LOST, [OTHER])
    assert judgement.verdict is Verdict.INCONCLUSIVE


def test_rows_of_another_run_give_no_verdict() -> None:
    disturbed = dataclasses.replace(CLEAN, foreign=3)
    assert judge_rows(disturbed, [SAME]).verdict is Verdict.INCONCLUSIVE


def test_lost_rows_of_earlier_cycles_fail() -> None:
    lost = dataclasses.replace(CLEAN, earlier_lost={3: 2})
    assert judge_rows(lost, [SAME]).verdict is Verdict.FAIL


ALTERED = "2 rows of earlier runs do not have the content that was written"
UNSHOWN = "they may have been altered before this load; dbcheck clean removes the table"


def test_rows_that_were_perhaps_altered_before_the_load_give_no_verdict() -> None:
    said = f"{ALTERED}, and {UNSHOWN}"
    altered = dataclasses.replace(CLEAN, earlier_altered=2)
    judgement = judge_rows(altered, [SAME])
    assert (judgement.verdict, judgement.reasons) == (Verdict.INCONCLUSIVE, (said,))
    one = judge_rows(dataclasses.replace(CLEAN, earlier_altered=1), [SAME])
    assert one.reasons[0].startswith("1 row of an earlier run does not have")
    judgement = judge_rows(dataclasses.replace(LOST, earlier_altered=2), [SAME])
    assert (judgement.verdict, judgement.reasons[1:]) == (Verdict.FAIL, (said,))


ONE, ANOTHER = (
    tables({"ledger": "16385 1"}, {"ledger": f"16385 {node}"}) for node in (1, 2)
)
REPLACED = "ledger was truncated, rewritten or recreated since the load began"


@pytest.mark.parametrize(
    ("found", "rows"),
    [
        pytest.param(LOST, "1 row is", id="a row of the cycle"),
        pytest.param(
            dataclasses.replace(CLEAN, earlier_lost={3: 2}), "2 rows are", id="earlier"
        ),
        pytest.param(
            dataclasses.replace(
                LOST,
                losses=Losses.of(
                    [*LOST.losses, Loss(LossKind.CORRUPT, 1, 8, 8, 5, LEDGER.name)],
                ),
            ),
            "1 row is",
            id="and one is corrupt",
        ),
    ],
)
def test_rows_that_are_missing_from_another_table_give_no_verdict(
    found: Reconciliation, rows: str
) -> None:
    judgement = judge_rows(found, [SAME, *ANOTHER])
    assert judgement.verdict is Verdict.INCONCLUSIVE
    (reason,) = judgement.reasons
    assert reason.startswith(f"{rows} missing from the table, but {REPLACED}; a cut")
    explained = judge_rows(found, [SAME, *ANOTHER], explained=True)
    assert explained.verdict is Verdict.FAIL
    for known in (ONE, tables({"ledger": "1 1"}, {}), tables({"ledger": ""}, {})):
        assert judge_rows(found, [SAME, *known]).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("before", "after", "status", "verdict"),
    [
        pytest.param("1", "", Status.ABSENT, Verdict.INCONCLUSIVE, id="no longer"),
        pytest.param("", "1", Status.ASSUMED, Verdict.PASS, id="only now"),
        pytest.param("", "", Status.ASSUMED, Verdict.PASS, id="never"),
    ],
)
def test_each_table_counts_whose_number_was_not_shown(
    before: str, after: str, status: Status, verdict: Verdict
) -> None:
    same = {"ledger": "7", "register": "8"}
    (item,) = tables({**same, "item": before}, {**same, "item": after})
    assert item.status is status
    assert judge_rows(CLEAN, [SAME, item]).verdict is verdict


def test_a_table_of_another_engine_gives_no_verdict_whatever_is_lost() -> None:
    converted = case(after={"facts": FACTS, "engines": {"ledger": "Aria"}})
    item = judge_same_tables(converted)
    assert item is not None and item.status is Status.CONTRADICTED
    for found in (CLEAN, LOST, None):
        for explained in (False, True):
            judgement = judge_rows(found, [SAME, item], explained=explained)
            assert judgement.verdict is Verdict.INCONCLUSIVE
            assert judgement.other_data and "Aria" in judgement.reasons[0]
    grouped = dataclasses.replace(
        converted,
        manifest=dataclasses.replace(converted.manifest, family="mysql"),
    )
    assert judge_same_tables(grouped) == item


def test_tables_that_were_not_read_are_not_seen_to_be_the_same() -> None:
    (item,) = tables({"ledger": "1 1"}, {})
    assert item.status is Status.NOT_OBSERVABLE


def test_another_table_with_every_row_takes_the_pass_away_alone() -> None:
    assert judge_rows(CLEAN, [SAME]).verdict is Verdict.PASS
    assert judge_rows(CLEAN, [SAME, *ANOTHER]).verdict is Verdict.INCONCLUSIVE
    corrupt = dataclasses.replace(
        CLEAN, losses=Losses.of([Loss(LossKind.CORRUPT, 1, 8, 8, 5, LEDGER.name)])
    )
    assert judge_rows(corrupt, [SAME, *ANOTHER]).verdict is Verdict.FAIL


PLAIN_TABLE = Definition(PLAIN, "as created", "16385 733")
LATER = PLAIN_TABLE._replace(version="16385 790")


def defined(
    after: Definition,
    *,
    before: Definition = PLAIN_TABLE,
    identity: str = "16385 1",
    looks: Sequence[tuple[int, Definition]] = (),
) -> Case:
    """Return the case of a table that was defined so, at looks at these times too."""
    tally = WatchTally(make_facts_of_tables({"ledger": before}))
    for asked_us, seen in looks:
        tally.add(asked_us, make_facts_of_tables({"ledger": seen}), asked_us + 1)
    load = dataclasses.replace(GOOD, watched=tally.watched() if looks else None)
    held = TableFacts({}, 0, identity="16385 1", definition=before)
    now = TableFacts({}, 0, identity=identity, definition=after)
    both = case(load=load, after={"facts": FACTS, "tables": {"ledger": now}})
    manifest = dataclasses.replace(both.manifest, tables={"ledger": held})
    return dataclasses.replace(both, manifest=manifest)


TRIGGER = PLAIN_TABLE._replace(besides="the trigger spoils")
REWRITTEN = {"identity": "16385 2", "after": LATER}
BEFORE_US, AFTER_US = 9_000_000, 11_000_000  # the cut of loaded() came between them


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        pytest.param({"after": PLAIN_TABLE}, Status.PRESENT, id="as it was"),
        pytest.param({"after": Definition()}, Status.PRESENT, id="not known after"),
        pytest.param(
            {"after": TRIGGER, "before": Definition()},
            Status.CONTRADICTED,
            id="an old record before",
        ),
        pytest.param({"after": TRIGGER}, Status.CONTRADICTED, id="still there"),
        pytest.param({"after": LATER}, Status.CONTRADICTED, id="came and went"),
        pytest.param(REWRITTEN, Status.ABSENT, id="rewritten alone"),
        pytest.param(
            {**REWRITTEN, "after": LATER._replace(columns="as created, 790")},
            Status.CONTRADICTED,
            id="rewritten as a column was altered",
        ),
        pytest.param(
            {"after": PLAIN_TABLE, "looks": [(BEFORE_US, TRIGGER)]},
            Status.CONTRADICTED,
            id="seen while the load ran",
        ),
        pytest.param(
            {"after": PLAIN_TABLE, "looks": [(BEFORE_US, LATER)]},
            Status.CONTRADICTED,
            id="another table for a time",
        ),
        pytest.param(
            {
                "after": PLAIN_TABLE,
                "looks": [(BEFORE_US, PLAIN_TABLE), (AFTER_US, TRIGGER)],
            },
            Status.PRESENT,
            id="seen after the cut alone, and gone",
        ),
    ],
)
def test_a_table_that_somebody_altered_accuses_nobody(
    changed: dict[str, Any], status: Status
) -> None:
    """A trigger can change rows, and a child double them, on a sound server."""
    found = judge_same_tables(defined(**changed))
    assert found is not None
    assert found.status is status
    corrupt = dataclasses.replace(
        CLEAN, losses=Losses.of([Loss(LossKind.CORRUPT, 1, 8, 8, 5, LEDGER.name)])
    )
    altered = status is Status.CONTRADICTED
    for rows, explained in ((corrupt, False), (corrupt, True), (LOST, True)):
        judgement = judge_rows(rows, [SAME, found], explained=explained)
        expected = Verdict.INCONCLUSIVE if altered else Verdict.FAIL
        assert judgement.verdict is expected
        assert judgement.reasons[0].startswith(found.reason) is altered
    passes = judge_rows(CLEAN, [SAME, found]).verdict is Verdict.PASS
    assert passes is (status is Status.PRESENT)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(
            dataclasses.replace(LOST, earlier_lost={3: 2000, 4: 1}),
            ("lost 1 of the 100 commits", "2,001 rows of earlier cycles were lost"),
            id="rows of this cycle and of earlier ones",
        ),
        pytest.param(
            dataclasses.replace(CLEAN, earlier_lost={3: 2}),
            (
                "2 rows of earlier cycles were lost",
                "all 100 acknowledged commits of this cycle are intact",
            ),
            id="rows of earlier ones alone",
        ),
        pytest.param(
            dataclasses.replace(
                LOST,
                losses=Losses.of(
                    [
                        *LOST.losses,
                        Loss(LossKind.CORRUPT, -1, -1, 3, -1, LEDGER.name),
                        Loss(LossKind.UNEXPECTED, -1, -1, 4, -1, LEDGER.name),
                    ]
                ),
                earlier_damaged={LossKind.CORRUPT: 1},
            ),
            (
                "lost 1 of the 100 commits",
                "1 row was there that this run cannot have written",
                "1 row of earlier cycles was damaged",
            ),
            id="rows that nobody confirmed",
        ),
    ],
)
def test_only_rows_of_the_cycle_are_counted_against_its_commits(
    found: Reconciliation, said: Sequence[str]
) -> None:
    (reason,) = judge_rows(found, [SAME]).reasons
    assert all(part in reason for part in said), reason
    assert not any(kind.value in reason for kind in LossKind)


def test_a_server_that_does_not_come_back_fails() -> None:
    judgement = judge_unrecoverable(
        "mount: structure needs cleaning", [], missing=False, explained=False
    )
    assert judgement.verdict is Verdict.FAIL


def test_a_server_that_nobody_cut_is_not_to_blame_for_its_absence() -> None:
    judgement = judge_unrecoverable(
        "exit status 1", [], missing=False, explained=True, never_cut=True
    )
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "no power cut was recorded" in judgement.reasons[0]


@pytest.mark.parametrize(
    ("missing", "page_cache_kept", "explained", "verdict"),
    [
        (True, True, False, Verdict.INCONCLUSIVE),
        (True, True, True, Verdict.FAIL),
        (True, False, False, Verdict.FAIL),
        (False, True, False, Verdict.FAIL),
    ],
)
def test_a_cut_that_spared_the_page_cache_took_no_table(
    missing: bool, page_cache_kept: bool, explained: bool, verdict: Verdict
) -> None:
    same = [Item(ItemId.NOT_RESTORED, Status.PRESENT, "as seen", False)]
    judged = judge_unrecoverable(
        "no such table",
        same,
        missing=missing,
        explained=explained,
        page_cache_kept=page_cache_kept,
    )
    assert judged.verdict is verdict
    assert ("somebody dropped" in judged.reasons[-1]) is missing


@pytest.mark.parametrize(
    ("status", "explained", "verdict"),
    [
        (Status.PRESENT, False, Verdict.FAIL),
        (Status.PRESENT, True, Verdict.FAIL),
        (Status.NOT_OBSERVABLE, False, Verdict.INCONCLUSIVE),
        (Status.NOT_OBSERVABLE, True, Verdict.FAIL),
        (Status.CONTRADICTED, True, Verdict.INCONCLUSIVE),
    ],
)
def test_the_loss_of_everything_may_be_a_restored_copy(
    status: Status, explained: bool, verdict: Verdict
) -> None:
    restored = [Item(ItemId.NOT_RESTORED, status, "as seen", False)]
    losses = Losses.of(
        Loss(LossKind.MISSING_TAIL, 0, n, n, n, LEDGER.name) for n in range(1, 4)
    )
    gone = Reconciliation(3, 0, 0, 0, 0, 0, {}, losses)
    judged = judge_rows(gone, restored, explained=explained)
    assert judged.verdict is verdict
    if status is not Status.CONTRADICTED:  # its table is then not even read
        judged = judge_unrecoverable(
            "no such table", restored, missing=True, explained=explained
        )
        assert judged.verdict is verdict


def test_a_single_survivor_shows_that_no_copy_was_restored() -> None:
    unseen = [Item(ItemId.NOT_RESTORED, Status.NOT_OBSERVABLE, "", False)]
    losses = Losses.of([Loss(LossKind.MISSING_TAIL, 1, 2, 2, 2, LEDGER.name)])
    for kept, recovered, unconfirmed in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        found = Reconciliation(2, kept, recovered, unconfirmed, 0, 0, {}, losses)
        assert judge_rows(found, unseen).verdict is Verdict.FAIL


def test_the_worst_verdict_counts() -> None:
    order = [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]
    assert find_worst(order) is Verdict.FAIL
    assert find_worst(order[:2]) is Verdict.INCONCLUSIVE
    assert find_worst(order[:1]) is Verdict.PASS


@pytest.mark.parametrize("cut", [CutClass.AC, CutClass.DC_RAIL])
def test_a_drive_that_counted_no_loss_of_power_keeps_the_claim_from_the_drives(
    cut: CutClass,
) -> None:
    kept = Item(ItemId.UNSAFE_SHUTDOWNS, Status.ABSENT, "counted since: sda 0", False)
    said = "unsafe shutdowns did not rise: counted since: sda 0"
    for depth in (None, Depth.OS):
        reasons = judge_rows(CLEAN, [SAME, kept], cut, depth).reasons
        assert said in "; ".join(reasons)
        assert DRIVE_LOST not in reasons[0]
    lost = judge_rows(CLEAN, [SAME, kept], cut, Depth.DRIVE)
    assert said not in "; ".join(lost.reasons)


def test_settings_that_could_not_be_read_again_are_not_the_same() -> None:
    before = {"fsync": "on"}
    item = settings(before, ("before the cut", {}), ("after", before))
    assert (item.status, item.required) == (Status.NOT_OBSERVABLE, True)
    assert item.reason == "they could not be read before the cut"


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (Status.CONTRADICTED, Verdict.INCONCLUSIVE),
        (Status.PRESENT, Verdict.FAIL),
        (Status.NOT_OBSERVABLE, Verdict.FAIL),
        (None, Verdict.FAIL),
    ],
)
def test_only_the_server_itself_shows_that_no_cut_took_its_rows(
    status: Status | None, verdict: Verdict
) -> None:
    """A record that is absent, as of a client that was lost, contradicts no cut."""
    shown = [SAME, *items(Status.NOT_OBSERVABLE)]
    if status is not None:
        shown.append(Item(ItemId.RESTARTED, status, "the start time", True))
    found = judge_rows(LOST, shown)
    assert found.verdict is verdict


def test_a_cut_that_the_witness_alone_knows_of_is_not_denied() -> None:
    """A client that was lost then may have had it made; it noted it once or more."""

    def said(*events: str) -> str:
        log = LogFacts(1, 1, 0, 1, [{"event": event} for event in events])
        known = dataclasses.replace(case(load=None), logs=(log,))
        assert judge_load_at_the_cut(known).status is Status.NOT_OBSERVABLE
        return judge_load_at_the_cut(known).reason

    once = said(CUT_EVENT)
    assert once == said("clock", f"{CUT_EVENT} 2")
    assert once != said() == said("clock")


@pytest.mark.parametrize(
    "load", [None, dataclasses.replace(GOOD, gone=Gone.UNSEEN)], ids=["lost", "ended"]
)
def test_a_client_that_ended_too_soon_does_not_blame_witness_or_switch(
    load: LoadRecord | None,
) -> None:
    judged = case(load=load)
    items = judge_load_at_the_cut(judged), judge_witness_at_the_cut(judged)
    advice = " ".join(doubt_of(item) for item in items if item)
    assert "cut again" in advice
    assert "faster disk" not in advice
    assert "dbcheck power test" not in advice


def test_a_plug_that_nobody_pulled_in_time_is_no_matter_of_a_switch() -> None:
    item = judge_load_at_the_cut(
        case(load=loaded(cut=Cut(None, None), gone=Gone.NEVER))
    )
    assert item.status is Status.CONTRADICTED
    assert "nobody cut its power in time" in item.reason
    assert "dbcheck power test" not in doubt_of(item)


@pytest.mark.parametrize("which", [ItemId.HOST_DOWN, ItemId.RESTARTED])
def test_a_host_that_was_not_cut_is_no_matter_of_a_switch_alone(which: ItemId) -> None:
    """A hand may have pulled another plug, or none."""
    advice = doubt_of(Item(which, Status.CONTRADICTED, "it ran on", required=True))
    assert "Test the switch" not in advice
    assert "Look what was cut" in advice
