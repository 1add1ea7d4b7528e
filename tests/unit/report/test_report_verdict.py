from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest
from rich.console import Console

from dbcheck.lab.spec import KEPT_WRITES, DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict, describe_proof
from dbcheck.report.drives import describe_faults
from dbcheck.report.verdict import verdict_report
from dbcheck.report.words.run import KEPT_WRITES as LEFT
from dbcheck.report.words.run import lab_scope
from dbcheck.report.words.summary import summarize_run
from dbcheck.rows.loss import LossKind
from tests.kit.reports import VALUES, printed, run_result

RESULT: Mapping[str, Any] = VALUES


@pytest.mark.parametrize(
    "depth",
    [None, {"depth": None, "reasons": ["?"]}, {"depth": "OS", "reasons": ["!"]}],
)
def test_a_reset_is_always_named(depth: dict[str, Any] | None) -> None:
    for cut_class, told in (("reset", True), ("AC", False)):
        result = {**RESULT, "power": "sysrq", "cut_class": cut_class, "depth": depth}
        shown = printed(verdict_report(run_result(result)))
        assert f"sysrq, class of the cut: {cut_class}" in shown
        assert ("reset of the host; the drives kept their power" in shown) is told


def test_a_class_that_nobody_declared_is_shown_as_assumed() -> None:
    for assumed, words in ((False, "cut: AC\n"), (True, "cut: AC (assumed)\n")):
        result = {**RESULT, "power": "manual", "depth": None, "class_assumed": assumed}
        shown = "\n".join(
            map(str.rstrip, printed(verdict_report(run_result(result))).split("\n"))
        )
        assert words in shown


def test_a_layer_that_holds_flushes_back_is_shown_instead_of_advice() -> None:
    loss = {"losses": {"missing-tail": 9}, "verdict": "FAIL", "depth": None}
    for layers in ([], ["dm-0 is 'write through'"]):
        changed = {
            **RESULT,
            **loss,
            "power": "fence",
            "cut_class": "AC",
            "layers_at_fault": layers,
        }
        shown = printed(verdict_report(run_result(changed)))
        assert ("RAID controller" in shown) is not bool(layers)
        assert all(said in shown for said in layers)


@pytest.mark.parametrize(
    ("depth", "kept"),
    [(None, False), ("OS", False), ("PROCESS", False), ("PROCESS", True)],
)
def test_a_cut_that_spared_every_page_cache_blames_no_drive(
    depth: str | None, kept: bool
) -> None:
    """The least depth of several volumes does not show that of each."""
    seen = {"depth": depth, "reasons": ["!"]} if depth else None
    loss = {"losses": {"missing-tail": 9}, "verdict": "FAIL", "depth": seen}
    spared = {"page_cache_kept": kept, "power": "exec"}
    shown = printed(verdict_report(run_result({**RESULT, **loss, **spared})))
    assert ("Look below it" in shown) is not kept


@pytest.mark.parametrize(
    ("causes", "blamed"),
    [(["deletes", "lost cache"], False), (["lost cache", "deletes"], True)],
)
def test_deletes_that_explain_every_loss_blame_no_drive(
    causes: list[str], blamed: bool
) -> None:
    loss = {"losses": {"missing-tail": 9}, "verdict": "FAIL", "depth": None}
    explained = [{"cause": c, "losses": 9, "reason": f"by {c}"} for c in causes]
    changed = {**RESULT, **loss, "power": "exec", "diagnosis": explained}
    shown = printed(verdict_report(run_result(changed)))
    assert ("RAID controller" in shown) is blamed
    assert "by deletes" in shown


@pytest.mark.parametrize(
    ("lab", "status", "said"),
    [
        ({}, None, True),
        ({}, "not observable", True),
        ({}, "present", False),
        ({"cut": "drive"}, None, False),
    ],
)
def test_a_loss_says_that_a_backup_that_was_put_back_looks_the_same(
    lab: dict[str, Any], status: str | None, said: bool
) -> None:
    loss = {"losses": {"missing-tail": 9}, "verdict": "FAIL", "depth": None}
    item = {"item": "not restored", "status": status, "reason": "why"}
    evidence = [{**item, "required": False}] if status else []
    changed = {**RESULT, **loss, "power": "exec", "lab": lab, "evidence": evidence}
    shown = printed(verdict_report(run_result(changed)))
    assert ("older copy of the data" in shown) is said
    assert ("was put in its place: why" in shown) is (status == "not observable")


def test_rows_of_earlier_cycles_have_a_line_of_their_own() -> None:
    rows = dict.fromkeys(("confirmed", "kept", "recovered", "unconfirmed"), 3)
    gone = {"earlier_losses": {"missing-hole": 3221}, "earlier": 12, "verdict": "FAIL"}
    result = {**RESULT, **rows, **gone, "power": "exec", "depth": None}
    shown = printed(verdict_report(run_result(result)))
    assert "earlier rows  3,221 missing-hole, 12 still there" in shown
    assert "RAID controller" in shown


@pytest.mark.parametrize(
    "lab",
    [{}, {"cut": "drive", "drive": {"kept_writes": "none"}}, {"cut": "process"}],
    ids=["target", "lab", "killed"],
)
@pytest.mark.parametrize("depth", ["OS", None])
def test_every_pass_says_what_it_bounds(lab: dict[str, Any], depth: str | None) -> None:
    measured = {"depth": depth, "reasons": ["!"]} if depth else None
    shown = {**RESULT, "power": "exec", "lab": lab, "depth": measured}
    said = printed(verdict_report(run_result(shown)))
    assert describe_proof(0, 1) in said
    assert " ".join(said.split()).count("up to 95% of such cuts") == 1


def test_a_control_bounds_nothing() -> None:
    """It passes because it lost."""
    shown = {
        **RESULT,
        "power": "lab",
        "lab": {"cut": "drive", "drive": {"kept_writes": "none"}},
        "depth": None,
    }
    said = printed(verdict_report(run_result({**shown, "control": True})))
    assert "Only a power loss of the lab's virtual drive" in said
    assert "confidence" not in said


@pytest.mark.parametrize("kind", KEPT_WRITES)
def test_a_lab_says_what_its_cuts_left(kind: str) -> None:
    spec = LabSpec("mysql", drive=DriveSpec(kept_writes=kind))
    said = lab_scope(spec.to_values())
    assert f"each cut left {LEFT[kind]}" in said
    assert "breaks its promise" not in said
    of_a_process = LabSpec("mysql", cut="process").to_values()
    assert "each cut left" not in lab_scope(of_a_process)


@pytest.mark.parametrize(
    ("drive", "says"),
    [
        (DriveSpec("lying"), "it ignores flushes."),
        (DriveSpec("fickle"), "at some power-ons it ignores flushes."),
        (DriveSpec("failing", honest_flushes=1234), "flushes after the first 1,234."),
        (DriveSpec("reordering", newest_bytes=8192), "only the newest 8,192 bytes"),
        (DriveSpec(lost_above_bytes=4096), "covers a write of more than 4,096 bytes."),
        (DriveSpec("lying", tear_bytes=512), "flushes; a flush covers only what a"),
        (
            DriveSpec(forget_at_bytes=4096, forget_bytes=512),
            "zeros in 512 bytes from byte 4,096 on.",
        ),
    ],
)
def test_a_lab_says_what_its_drive_does_wrong(drive: DriveSpec, says: str) -> None:
    said = lab_scope(LabSpec("mysql", drive=drive).to_values())
    assert f"breaks its promise: {'; '.join(describe_faults(asdict(drive)))}." in said
    assert says in said
    assert "that no flush covered, each cut left nothing" in said


@pytest.mark.parametrize("personality", ["honest", "write-through"])
def test_a_drive_without_a_fault_is_said_to_have_none(personality: str) -> None:
    assert not list(describe_faults(asdict(DriveSpec(personality))))


@pytest.mark.parametrize(
    "lab",
    [
        {"x": 1},
        {"drive": 3},
        {"cut": 1, "drive": {"kept_writes": ["none"]}},
        {"drive": {"personality": ["lying"], "tear_bytes": "512"}},
        {"drive": {"personality": "failing", "honest_flushes": "{x}"}},
    ],
)
def test_a_forged_lab_is_described_without_what_it_left(
    lab: dict[str, Any],
) -> None:
    assert "each cut left" not in lab_scope(lab)


ITEMS = [
    {"item": "same server", "status": "present", "required": True},
    {"item": "not shut down", "status": "absent", "required": True},
    {"item": "host went down", "status": "assumed", "required": True},
    {"item": "write cache", "status": "absent", "required": False},
    {"item": "server's log", "status": "contradicted", "required": True},
]


def report_lines(**changed: Any) -> list[str]:
    """Return a report on 80 columns, line by line."""
    result = run_result({**RESULT, **changed})
    return [line.rstrip() for line in printed(verdict_report(result), 80).splitlines()]


def test_the_verdict_comes_first_and_once_more_last() -> None:
    lines = report_lines(reasons=["12 are gone", "and more"], verdict="FAIL")
    assert all(len(line) <= 80 for line in lines)
    end = next(n for n, line in enumerate(lines) if line.startswith("\u2570"))
    frame = [line.strip("\u2502 ") for line in lines[1:end]]
    assert frame[0].startswith("\u256d")
    assert frame[1] == "FAIL   12 are gone."
    assert frame[2] == describe_proof(1, 1)
    assert frame[4].startswith("Next: ")
    assert lines[end + 1] == "and more"
    assert [line for line in lines if line][-1] == " FAIL   12 are gone."


def test_what_is_wrong_or_missing_in_the_evidence_comes_first() -> None:
    lines = report_lines(evidence=[{**item, "reason": "why"} for item in ITEMS])
    begin = next(n for n, line in enumerate(lines) if line.startswith("Evidence"))
    assert lines[begin].split("   ", 1)[1] == (
        "! contradicted  - absent  ~ assumed  + present"
    )
    below = " ".join(" ".join(lines[begin + 1 :]).split())
    shown = [
        "! server's log the server's log shows a shutdown: why (a PASS needs this)",
        "- not shut down nothing shows that the server was cut",
        "- write cache the kernel holds flushes back",
        "~ host went down why +",
        "+ same server why",
    ]
    assert sorted(shown, key=below.index) == shown


@pytest.mark.parametrize("stored", [True, False])
def test_a_run_that_is_stored_can_be_shown_to_others(stored: bool) -> None:
    text = "\n".join(report_lines(stored=stored, folder="runs/my id"))
    for command in ("report 'runs/my id' -o report.html", "bundle 'runs/my id'"):
        assert (f"dbcheck {command}" in text) is stored


@pytest.mark.parametrize("verdict", Verdict)
def test_a_report_says_all_without_colour_or_line_characters(verdict: Verdict) -> None:
    raw = io.BytesIO()
    items = [{**item, "reason": "why"} for item in ITEMS]
    result = run_result({**RESULT, "verdict": verdict.value, "evidence": items})
    with io.TextIOWrapper(raw, encoding="ascii") as file:
        Console(file=file, width=80, no_color=True).print(verdict_report(result))
        file.flush()
        text = raw.getvalue().decode("ascii")
    assert text.splitlines()[1] == f"+{'-' * 78}+"
    assert f" {verdict.value} " in text
    assert "\x1b" not in text


def test_each_kind_of_loss_is_explained_beside_the_verdict() -> None:
    own, earlier = {"torn": 2, "inconsistent": 1}, {"missing-hole": 3}
    values = {"losses": own, "earlier_losses": earlier, "earlier": 9}
    text = printed(verdict_report(run_result({**RESULT, **values, "verdict": "FAIL"})))
    for kind, rows in (
        (LossKind.TORN, "2 rows"),
        (LossKind.INCONSISTENT, "1 row"),
        (LossKind.MISSING_HOLE, "3 rows of earlier cycles"),
    ):
        assert f"{kind.value}, {rows}: {kind.means.replace('`', '')}" in text
    assert LossKind.CORRUPT.means not in text


@pytest.mark.parametrize(
    ("cut_class", "depth", "drive"),
    [
        ("AC", None, True),
        ("AC", "DRIVE", True),
        ("AC", "OS", False),
        ("hypervisor kill", None, False),
        ("hypervisor kill", "OS", False),
        ("reset", None, False),
        ("unknown", None, True),
        ("lab drive", "OS", True),
    ],
)
def test_a_drive_is_suspected_only_after_a_cut_that_can_have_emptied_its_cache(
    cut_class: str, depth: str | None, drive: bool
) -> None:
    seen = {"depth": depth, "reasons": ["!"]} if depth else None
    loss = {"losses": {"missing-tail": 9}, "verdict": "FAIL", "depth": seen}
    shown = printed(verdict_report(run_result({**loss, "cut_class": cut_class})))
    assert "Look below it" in shown
    assert ("RAID controller" in shown) is drive


@pytest.mark.parametrize(
    ("losses", "explained", "below"),
    [
        ({"duplicate": 4}, {"repeats": 4}, False),
        ({"prepared": 5}, {"decisions": 5}, False),
        ({"duplicate": 4, "prepared": 5}, {"decisions": 5, "repeats": 4}, False),
        ({"prepared": 5}, {}, True),
        ({"prepared": 5, "missing-tail": 1}, {"decisions": 5}, True),
    ],
)
def test_what_clients_explain_sends_nobody_below_the_server(
    losses: Mapping[str, int], explained: Mapping[str, int], below: bool
) -> None:
    causes = [
        {"cause": cause, "losses": rows, "reason": "?"}
        for cause, rows in explained.items()
    ]
    changed = {"losses": losses, "verdict": "FAIL", "diagnosis": causes}
    shown = printed(verdict_report(run_result(changed)))
    assert ("Look below it" in shown) is below


def test_a_run_that_is_not_final_says_how_to_go_on_with_its_flags() -> None:
    result = run_result({"final": False, "verdict": "INCONCLUSIVE"})
    assert summarize_run(result).action.endswith(": dbcheck reconcile runs/1")
    command = "dbcheck reconcile runs/1 --identity k"
    assert command in printed(verdict_report(result, command))
