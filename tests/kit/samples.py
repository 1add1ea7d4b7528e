"""Records of one cycle, as a run folder holds them."""

from __future__ import annotations

from dataclasses import replace

from dbcheck.campaign.folder import CampaignPlan
from dbcheck.config import workload_file
from dbcheck.model.cluster import ONLY_NODE, SiteKind
from dbcheck.model.cut import Cut, Gone, SwitchKind
from dbcheck.model.records import LoadRecord, Manifest, NodeAtTheCut, NodeBefore
from dbcheck.model.server import ServerFacts
from dbcheck.model.witness import Watermark, WindowFacts
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.table import LEDGER, TableFacts
from tests.kit.client_clocks import LOADED
from tests.kit.nodes import one

FACTS = ServerFacts(
    "PostgreSQL", "15.1", {"system_identifier": "1"}, 5, 0, 9, {"fsync": "on"}
)

MANIFEST = Manifest(
    run_id="20260102-030405-a1b2c3",
    created="2026-01-02T03:04:05+00:00",
    dbcheck="0",
    seed=1,
    epoch=2,
    family="postgresql",
    site=SiteKind.SINGLE,
    nodes=one(NodeBefore("postgresql://u@h/d", FACTS, SwitchKind.MANUAL)),
    writer_name=ONLY_NODE,
    workload=workload_file.load("insert"),
    witness="ssh://w/folder",
    witness_kind="ssh",
    window_acks=10,
    clock_us=3,
    wall_us=4,
    tables={"ledger": TableFacts({7: 8}, 9)},
)

LOAD = LoadRecord(
    sent={1: 3},
    acked={1: 2},
    began_us=1,
    last_ack_us=2,
    gone=Gone.BROKEN,
    gone_us=3,
    in_flight=1,
    rate=1.5,
    latency_ms={"p50": 1.0},
    watermarks=(Watermark(1, 2, "ab"), None),
    windows=(WindowFacts(1, 0.5),),
    refusals=("no",),
    farewells=("bye",),
    nodes={ONLY_NODE: NodeAtTheCut(Cut(1, None, {"x": 1}), host_lived=False)},
    clocks=LOADED,
)

CLEAN = Reconciliation(100, 100, 1, 0, 0, 0, {}, Losses.of(()))
# No row of the run is there, not even one from before the load.
ALL_GONE = replace(
    CLEAN,
    confirmed=1,
    kept=0,
    recovered=0,
    losses=Losses.of([Loss(LossKind.MISSING_TAIL, 0, 1, 1, 1, LEDGER.name)]),
)
PLAN = CampaignPlan(
    "", "0", "db1", "", 1, MANIFEST.workload, 10**4, 10**5, None, False, True
)
