"""Start a Kubernetes cluster of one node, use it, and end it.

    python -m tools.kubernetes build
    python -m tools.kubernetes up FOLDER
    python -m tools.kubernetes server FOLDER volume|empty-dir|layer PORT [DATA]
    python -m tools.kubernetes kubectl FOLDER WORD ...
    python -m tools.kubernetes cut FOLDER
    python -m tools.kubernetes start FOLDER
    python -m tools.kubernetes down FOLDER

As root.  FOLDER is made by up and removed by down, with all that the cluster has.  cut
kills all of it at once, containers included, and start is what a boot does then.  The
build takes minutes, once, and is kept in /var/cache/dbcheck-kube.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dbcheck.base.errors import DbcheckError
from tools.kubernetes.build import build
from tools.kubernetes.cluster import start_again, up
from tools.kubernetes.machine import cut, down
from tools.kubernetes.run import ClusterError
from tools.kubernetes.server import KINDS, end_server, start_server
from tools.kubernetes.state import Cluster


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
        case ["up", folder]:
            _up(Path(folder))
        case ["server", folder, kind, port, *data] if kind in KINDS and len(data) < 2:
            cluster = _find(folder)
            end_server(cluster)
            place = Path(data[0]) if data else cluster.folder / "data"
            start_server(cluster, kind, int(port), place)
        case ["kubectl", folder, *rest]:
            sys.stdout.write(_find(folder).kubectl(*rest))
        case ["cut", folder]:
            cut(_find(folder))
        case ["start", folder]:
            start_again(_find(folder))
        case ["down", folder]:
            down(_find(folder))
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


def _up(folder: Path) -> None:
    was_there = folder.exists()
    try:
        cluster = up(folder)
    except BaseException:
        if not was_there and _find(str(folder)).traces.exists():
            down(_find(str(folder)))
        raise
    sys.stdout.write(f"export KUBECONFIG={cluster.kubeconfig}\n")


def _find(folder: str) -> Cluster:
    return Cluster(Path(folder).resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
