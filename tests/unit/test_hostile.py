"""What once crashed, hung or took all memory: each is refused with an error of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck import workload
from dbcheck.campaign.judging import judge_run
from dbcheck.cli.matrix_rows import read_matrix
from dbcheck.core.depth import Completed, Counted, Ground, Remains, Ring, find_depth
from dbcheck.core.evidence import Standing
from dbcheck.core.history import Ack
from dbcheck.engines.link import ProtocolViolation
from dbcheck.engines.mysql.wire import answers
from dbcheck.errors import DbcheckError, HostError, RunFormatError, UsageError
from dbcheck.hosts.agent.canary import RUN, survivors
from dbcheck.hosts.agent.facts import parse_nvme, parse_smartctl
from dbcheck.hosts.host import TargetHost
from dbcheck.inventory import load
from dbcheck.lab.state import LabRecord
from dbcheck.remote import wire
from dbcheck.remote.channel import Channel
from dbcheck.runs import LOGS_MAX, Manifest, RunFolder
from dbcheck.witness import agent
from dbcheck.witness.channel import open_channel
from dbcheck.witness.log import FrameLogReader
from tests.fuzz.stored_run import acks_of, manifest, stored_run
from tests.unit.test_witness_channel import Script, reply
from tests.unit.witness_logs import LogMaker

DIAMONDS = "".join(
    f"a{n}: {{children: {{a{n + 1}: , b{n + 1}: }}}}\n"
    f"b{n}: {{children: {{a{n + 1}: , b{n + 1}: }}}}\n"
    for n in range(60)
)
CHAIN = "".join(f"g{n}: {{children: {{g{n + 1}: }}}}\n" for n in range(1500))
LAUGHS = "a0: &a0 [1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)
TEMPLATES = "all:\n  hosts: {h: }\n  vars:\n    v8: ''\n" + "".join(
    f"    v{n}: '{f'{{{{ v{n + 1} }}}}' * 1000}'\n" for n in range(1, 8)
)


def read_inventory(folder: Path, text: str) -> load.Inventory:
    path = folder / "hosts.yml"
    path.write_text(text)
    return load.load(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"all: {{vars: {{x: {'[' * 99}{']' * 99}}}}}\n", "nests more than 100"),
        (f"all: {{vars: {{x: 1}}}}\n{LAUGHS}", "has more than 300000"),
        ("all: {hosts: {'db[1:9999][1:9999]': }}\n", "more than 10000 hosts"),
        (f"all: {{vars: {{x: 0x{'f' * 5000}}}}}\n", "a number of 20000 bits"),
        ("all: {? {? {a: []} : 1} : 2}\n", "is not YAML"),
        ("all: {vars: {ansible_group_priority: .inf}}\n", "not a number"),
    ],
)
def test_inventories_that_mean_too_much(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_inventory(tmp_path, text)


@pytest.mark.parametrize(
    "text", [DIAMONDS, CHAIN, f"{'g' * 300}: {{hosts: {{h: }}}}\n"]
)
def test_groups_of_any_shape_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "group_vars").mkdir()
    assert not read_inventory(tmp_path, text).entries


def test_a_value_is_filled_in_once(tmp_path: Path) -> None:
    """Else it would be 1000 to the power of 7 times."""
    target = "    dbcheck_target: 'postgresql://{{ v1 }}'\n"
    found = read_inventory(tmp_path, TEMPLATES + target)
    assert found.entry("h").target == "postgresql://"


def test_a_value_does_not_grow_beyond_measure(tmp_path: Path) -> None:
    text = TEMPLATES.replace("v8: ''", "v8: x") + "    dbcheck_target: '{{ v1 }}'\n"
    with pytest.raises(UsageError, match="too long once it is filled in"):
        read_inventory(tmp_path, text).entry("h")


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, str(10**400)])
def test_numbers_that_no_number_is_that_long(tmp_path: Path, number: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'plan = "classic"\nsessions = {number}\n')
    with pytest.raises(UsageError, match="is not TOML"):
        workload.load(str(path))
    with pytest.raises(UsageError, match="is not TOML"):
        read_matrix(str(path), [], target=True, seed=1)


@pytest.mark.parametrize(
    "payload",
    [b"", b"[", b"\xff", b"7", b"{}", b'{"folder": {}}', b'{"folder": "\\u0000"}']
    + [b'{"folder": "no/such", "run": 7}', b"[" * 100_000],
)
@pytest.mark.parametrize("verb", range(agent.FACTS, agent.REMOVE + 1))
def test_an_agent_survives_any_request(verb: int, payload: bytes) -> None:
    sent: list[tuple[int, bytes]] = []
    one = agent.Agent(lambda kind, body: sent.append((kind, body)))
    one.handle([(verb, 0, 0, payload)])
    ((kind, body),) = sent
    if verb == agent.RUNS and b"such" in payload:
        assert (kind, body) == (wire.RESULT, b"[]")
        return
    assert kind == wire.ERROR
    assert json.loads(body)["code"] in ("protocol", "log")


ANSWERS: list[Any] = [None, 5, [], {}, {"addresses": 5}, {"run": {}}, {"folder": 5}]


@pytest.mark.parametrize("value", ANSWERS)
def test_answers_that_make_no_sense_are_told(value: object) -> None:
    def pipe(_: bytes = b"") -> Script:
        return Script(wire.HELLO, reply(wire.RESULT, json.dumps(value).encode()))

    host = TargetHost("h", pipe)
    questions: list[Callable[[], object]] = [
        lambda: host.facts("/d"),
        lambda: host.read_log("/l", {}),
        lambda: host.read_canaries("/c", "n"),
        lambda: host.start_canaries("/d"),
        host.identity,
        lambda: host.arm_reset("/t"),
    ]
    for question in questions:
        with pytest.raises(HostError, match="unexpected reply from the host agent"):
            question()


def test_an_answer_nested_too_deep_is_told() -> None:
    deep = b"[" * 100_000
    for kind in (wire.RESULT, wire.ERROR):
        channel: Channel = open_channel(Script(wire.HELLO, reply(kind, deep)), "here")
        with pytest.raises(
            DbcheckError, match="unexpected reply from the witness agent"
        ):
            channel.request(agent.RUNS)


def test_an_id_that_no_row_can_have_is_nonsense() -> None:
    packet = b"\0\x01\xfe" + b"\xff" * 8 + b"\x02\0\0\0"
    with pytest.raises(
        ProtocolViolation, match="impossible row id 18446744073709551615"
    ):
        answers(len(packet).to_bytes(3, "little") + b"\x01" + packet, 1)


@pytest.mark.parametrize("logs", [0, LOGS_MAX + 1, 10**12])
def test_a_run_has_no_more_logs_than_a_load_has_processes(logs: int) -> None:
    content = manifest().to_bytes().replace(b'"logs": 2', b'"logs": %d' % logs)
    with pytest.raises(RunFormatError):
        Manifest.from_bytes(content, "here")
    with pytest.raises(ValueError, match="cannot have"):
        replace(manifest(), logs=logs)


def test_rings_of_other_canaries_measure_nothing() -> None:
    done = Completed(Counted(9, 2), (Counted(9, 2), Counted(9, 2)))
    left = Remains("", ((1, 9),), 1, (Ring(((1, 9),)),), 8)
    found = find_depth(done, left, Ground("xfs"))
    assert found.depth is None
    assert "1 rings are there, not 2" in found.reasons[0]


@pytest.mark.parametrize("found", [((1, 10**15),), ((5, 1),), ((-3, 1),)])
def test_numbers_that_no_ring_holds_are_refused(found: Any) -> None:
    with pytest.raises(ValueError, match="no canaries"):
        Remains("", (), 1, (Ring(found),), 8)


@pytest.mark.parametrize(
    "run", [[], 5, {"nonce": 5}, {"nonce": "", "rings": 10**30}, {"nonce": "x"}]
)
def test_canaries_whose_own_file_is_garbage_are_none(
    tmp_path: Path, run: object
) -> None:
    (tmp_path / RUN).write_text(json.dumps(run))
    (tmp_path / "buffered-x").touch()
    assert survivors(str(tmp_path))["run"] is None


@pytest.mark.parametrize(
    "shown",
    [{"power_cycles": "²"}, {"power_cycles": "9" * 5000}]
    + [{"ata_smart_attributes": 5}, {"ata_smart_attributes": {"table": [5]}}]
    + [{"ata_smart_attributes": {"table": [{"id": [], "raw": "x"}]}}],
)
def test_counters_that_are_none_are_not_read(shown: object) -> None:
    text = json.dumps(shown, ensure_ascii=False)
    assert parse_nvme(text) == parse_smartctl(text) == {}


@pytest.mark.parametrize(
    "noted", ["[]", "5", '{"daemon": [1], "processes": [5, [], ["a", "b"]]}']
)
def test_a_lab_that_noted_garbage_has_no_processes(tmp_path: Path, noted: str) -> None:
    entry = LabRecord(tmp_path)
    entry.facts.write_text(noted)
    assert entry.processes() == []
    assert entry.daemon() is None


def test_a_moment_beyond_the_calendar_is_left_out(tmp_path: Path) -> None:
    run = stored_run(RunFolder.create(tmp_path, replace(manifest(), logs=1)))
    (run.path / "load.json").unlink()
    maker = LogMaker(run.path.name)
    far = [Ack(session, seq, 50 + seq, 2**62) for session, seq, _, _ in acks_of(1)]
    maker.add_acks(far)
    run.write_acks(0, [maker.data()])
    outcome = judge_run(run, FrameLogReader())
    assert outcome.found is not None
    assert outcome.found.counts
    assert ",,\n" in (run.path / "losses.csv").read_text()


@pytest.mark.parametrize("meant_s", ["15", None, [], float("nan")])
def test_a_time_without_power_that_is_no_number_is_not_reached(
    tmp_path: Path, meant_s: object
) -> None:
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    load = run.load()
    assert load is not None
    assert load.cut is not None
    cut = replace(load.cut, report={"off_s": meant_s})
    run.write_load(replace(load, cut=cut, canaries=None))  # no depth is known
    items = judge_run(run, FrameLogReader()).judgement.items
    (item,) = [item for item in items if item.name == "time without power"]
    assert item.standing is Standing.NOT_OBSERVABLE
