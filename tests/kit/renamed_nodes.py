"""A recorded run of two nodes, as it would be if the nodes had other names.

tests/recorded/cluster is a run of `dbcheck lab run --engine postgresql --nodes 2`; the
lab calls its nodes node1 and node2.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from dbcheck.agent import witness as agent
from dbcheck.base.decoding import convert
from dbcheck.model.records import AfterRecord, LoadRecord, Manifest, NodeBefore
from dbcheck.model.witness import Watermark
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import LogScan, stream_file
from tests.kit.witness_logs import LogMaker

RECORDED = Path(__file__).parents[1] / "recorded" / "cluster"
NODES = ("node1", "node2")
_ROWS = "survivors-ledger-on-{}.bin"
Record = TypeVar("Record", Manifest, LoadRecord, AfterRecord)


def renamed_run(
    parent: Path, names: Sequence[str], said: Sequence[str] = ()
) -> RunFolder:
    """Return a copy of the run whose nodes have these *names*, the writer's first.

    said: what the writer and its sessions were told; {} stands for the name of each
    node in turn.
    """
    new = dict(zip(NODES, names, strict=True))
    source = RunFolder.open(RECORDED)
    manifest = _renamed(source.manifest(), Manifest, new)
    spoken = tuple(text.replace("{}", name) for text in said for name in names)
    told = {f"fact {number}": text for number, text in enumerate(spoken)}
    nodes = {name: of_host(node, name, told) for name, node in manifest.nodes.items()}
    manifest = replace(manifest, nodes=nodes)
    folder = parent / manifest.run_id
    shutil.copytree(RECORDED, folder)
    (folder / _ROWS.format(NODES[0])).rename(
        folder / _ROWS.format(quote(names[0], safe=""))
    )
    (folder / "manifest.json").write_bytes(stored.to_bytes(manifest))
    run = RunFolder.open(folder)
    found = source.load()
    assert found is not None
    load = replace(_renamed(found, LoadRecord, new), warnings=spoken)
    watermark = _rename_in_log(source.acks_path(), run, load)
    run.write_load(replace(load, watermarks=(watermark, *load.watermarks[1:])))
    run.write_after(_renamed(source.after(), AfterRecord, new))
    for name in ("server.log", "drives.csv"):
        run.write_lines(name, [_in_text((source.path / name).read_text(), new)])
    return run


def of_host(node: NodeBefore, name: str, told: Mapping[str, str]) -> NodeBefore:
    """Return a node whose server is at the host that has its name."""
    url = node.target.replace("127.0.0.1", quote(name, safe=""))
    return replace(node, target=url, facts=replace(node.facts, unreadable=told))


def _renamed(record: Record, kind: type[Record], new: dict[str, str]) -> Record:
    values = msgspec.to_builtins(record, str_keys=True)
    return convert(_in_values(values, new), kind, str_keys=True)


def _in_values(value: Any, new: dict[str, str]) -> Any:
    if isinstance(value, str):
        return _in_text(value, new)
    if isinstance(value, dict):
        return {_in_text(k, new): _in_values(each, new) for k, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_in_values(each, new) for each in value)
    return value


def _in_text(text: str, new: dict[str, str]) -> str:
    """Return a text with the new names; one may be the old name of the other."""
    for number, old in enumerate(new):
        text = text.replace(old, f"\0{number}\0")
    for number, name in enumerate(new.values()):
        text = text.replace(f"\0{number}\0", name)
    return text


def _rename_in_log(source: Path, run: RunFolder, load: LoadRecord) -> Watermark:
    """Write the log as a witness would have; return what it confirmed."""
    scan = LogScan(stream_file(source), run.path.name)
    made = LogMaker(run.path.name)
    made.sha, made.frames = hashlib.sha256(), []
    for frame, _ in scan.frames():
        body = frame.body
        if frame.kind == agent.EVENT and b'"load"' in body:
            event = json.loads(body)
            event["load"] = stored.to_bytes(load).decode()
            body = json.dumps(event).encode()
        made.add(frame.kind, frame.count, body, clock_us=frame.clock_us)
    run.write_acks(0, [made.data()])
    return made.watermark()
