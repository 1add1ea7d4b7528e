"""Counts the messages of campaigns that reach the client of a fleet per second.

Each goes from a campaign's process to its worker, and over a queue of the scheduler to
the client.  The campaigns are played (tests/kit/played_campaign.py).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from distributed import Client, Queue
from rich.console import Console

from dbcheck.fleet.coordinator import Coordinator
from dbcheck.fleet.messages import Word, pack_message
from dbcheck.load import dask_cluster
from dbcheck.report.fleet import PlainFleet
from tests.kit.dask_cluster import cluster
from tests.kit.played_campaign import TALK
from tools.bench.fleet import PRELOAD, ROOT, WORKERS, campaign, cpu_s
from tools.bench.shown import console, table

ROUNDS = 3
SENT = 1000  # by the client


def main(words: Sequence[str]) -> None:
    """Measure both directions."""
    parser = argparse.ArgumentParser("fleet_messages")
    parser.add_argument("--rigs", type=int, default=8)
    parser.add_argument("--each", type=int, default=2000)
    given = parser.parse_args(words)
    columns = ("received/s", "client CPU us", "scheduler CPU us", "sent/s")
    shown = table("messages of a fleet", *columns)
    for _ in range(ROUNDS):
        shown.add_row(*measured(given.rigs, given.each))
    console().print(shown)


def measured(rigs: int, each: int) -> list[str]:
    """Return the figures of one round."""
    environment = {
        PRELOAD: "tools.bench.fleet_played",
        "PYTHONPATH": str(ROOT),
        TALK: str(each),
    }
    with tempfile.TemporaryDirectory() as place:
        running = cluster(
            Path(place, "dask"), WORKERS, environment, threads=-(-rigs // WORKERS)
        )
        with running as found, dask_cluster.connect_client(found.address) as client:
            assert found.scheduler is not None
            pid = found.scheduler.pid
            campaigns = [campaign(Path(place), n, "-talk") for n in range(rigs)]
            view = PlainFleet(Console(quiet=True))
            began_s, own_s, other_s = time.monotonic(), time.process_time(), cpu_s(pid)
            Coordinator(client, campaigns, None, view).run()
            count = rigs * each
            received = count / (time.monotonic() - began_s)
            own_us = (time.process_time() - own_s) / count * 1e6
            other_us = (cpu_s(pid) - other_s) / count * 1e6
            sent = f"{_sent_per_s(client):,.0f}"
            return [f"{received:,.0f}", f"{own_us:.0f}", f"{other_us:.0f}", sent]


def _sent_per_s(client: Client) -> float:
    """Return how many messages a second the client can send, one after the other."""
    queue, content = Queue("dbcheck-bench", client), pack_message(Word.ALIVE)
    began_s = time.monotonic()
    for _ in range(SENT):
        queue.put(content)
    taken_s = time.monotonic() - began_s
    queue.close()
    return SENT / taken_s
