"""Start a Kubernetes cluster, use it, and end it.

    python -m tools.kubernetes build
    python -m tools.kubernetes up FOLDER [NODES]
    python -m tools.kubernetes server FOLDER volume|shared|empty-dir|layer PORT [DATA]
    python -m tools.kubernetes kubectl FOLDER WORD ...
    python -m tools.kubernetes cut FOLDER [NODE]
    python -m tools.kubernetes start FOLDER [NODE]
    python -m tools.kubernetes down FOLDER

As root.  FOLDER is made by up and removed by down, with all that the cluster has.  cut
kills all of it at once, containers included, and start is what a boot does then.  With
NODE (dbcheck, dbcheck-b, ...) both do so with one node, and the rest goes on.  The
build takes minutes, once, and is kept in /var/cache/dbcheck-kube.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dbcheck.base.errors import DbcheckError
from tools.kubernetes.build import build
from tools.kubernetes.cluster import start_again, up
from tools.kubernetes.machine import cut, cut_node, down
from tools.kubernetes.node import start_node_again
from tools.kubernetes.run import ClusterError
from tools.kubernetes.server import KINDS, end_server, start_server
from tools.kubernetes.state import Cluster

_COUNTS = [[digit] for digit in "123456789"]


def main(words: Sequence[str]) -> int:
    """Do what the command line says; return the exit status, 2 if it is wrong."""
    try:
        return _act(words)
    except (ClusterError, DbcheckError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _act(words: Sequence[str]) -> int:
    match list(words):
        case ["build"]:
            sys.stdout.write(f"{build()}\n")
        case ["up", folder, *nodes] if not nodes or nodes in _COUNTS:
            _up(Path(folder), int("".join(nodes) or 1))
        case ["server", folder, kind, port, *data] if kind in KINDS and len(data) < 2:
            cluster = _find(folder)
            end_server(cluster)
            place = Path(data[0]) if data else cluster.folder / "data"
            start_server(cluster, kind, int(port), place)
        case ["kubectl", folder, *rest]:
            sys.stdout.write(_find(folder).kubectl(*rest))
        case ["down", folder]:
            down(_find(folder))
        case [("cut" | "start") as verb, folder, *node] if len(node) < 2:
            _switch(verb, _find(folder), *node)
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


def _switch(verb: str, cluster: Cluster, name: str = "") -> None:
    """Cut, or start again, the whole cluster, or the node *name* if it is given."""
    if name:
        of_node = cut_node if verb == "cut" else start_node_again
        of_node(cluster, cluster.find_node(name))
    else:
        of_all = cut if verb == "cut" else start_again
        of_all(cluster)


def _up(folder: Path, nodes: int) -> None:
    was_there = folder.exists()
    try:
        cluster = up(folder, nodes)
    except BaseException:
        if not was_there and _find(str(folder)).traces.exists():
            down(_find(str(folder)))
        raise
    sys.stdout.write(f"export KUBECONFIG={cluster.kubeconfig}\n")


def _find(folder: str) -> Cluster:
    return Cluster(Path(folder).resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
