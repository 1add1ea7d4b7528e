"""Rules for products that speak PostgreSQL's protocol above a storage of their own.

None of PostgreSQL's settings is among them: both products accept fsync, for one, and
ignore it.  No lab has such a server.
"""

from __future__ import annotations

from dbcheck.audit.rule import Harm, Rule
from dbcheck.core.audited import Severity
from dbcheck.core.depth import Depth

_UNSHOWN = "no lab has such a server"

YUGABYTEDB = (
    Rule(
        id="yb-durable-wal-write",
        fact="durable_wal_write",
        safe=frozenset({"true"}),
        why="With durable_wal_write false, its default, the log is synced once a second"
        " or once for each MiB, and not before a commit is acknowledged: where a"
        " majority of the nodes loses power, the commits since are lost.",
        fix="start each yb-tserver and yb-master with --durable_wal_write=true; no"
        " statement shows the flag, so look at the nodes' pages /varz",
        source="YugabyteDB, src/yb/consensus/log_util.cc, durable_wal_write and"
        " interval_durable_wal_write_ms; its documentation, yb-tserver flags",
        severity=Severity.ERROR,
        harm=Harm(Depth.OS, end=True),
        unshown=_UNSHOWN,
    ),
)
COCKROACHDB = (
    Rule(
        id="crdb-raft-log-sync",
        fact="kv.raft_log.disable_synchronization_unsafe",
        safe=frozenset({"false", "f"}),
        why="With this on a node neither writes out nor syncs its log before a commit"
        " is acknowledged: a crash can lose commits and damage data.",
        fix="set cluster setting kv.raft_log.disable_synchronization_unsafe = false;",
        source="CockroachDB, pkg/kv/kvserver/logstore, description of"
        " kv.raft_log.disable_synchronization_unsafe",
        severity=Severity.ERROR,
        harm=Harm(Depth.PROCESS, everything=True),
        unshown=_UNSHOWN,
    ),
)
