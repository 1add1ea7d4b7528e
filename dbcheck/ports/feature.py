"""Features that only some servers have, and why one is refused."""

from __future__ import annotations

from enum import Enum

from dbcheck.base.error_ids import ErrorId


class Feature(Enum):
    """Features that only some servers have, by the methods that they need.

    Each names its methods of Engine: an engine overrides all of them, or none.
    """

    CHECKPOINT = ("checkpoint",)
    CRASH_CANARY = ("plant_canary", "canary")
    CONTROL = ("weaken_durability", "open_weak_session")
    SERVER_CONTROL = ("check_weakening", "restore_durability")
    LOG_OVER_SQL = ("logged",)
    NAMES_IN_LOG = ("names_in_log",)
    TABLE_IDENTITY = ("table_identity", "table_definition")
    COUNTED_DELETES = ("deleted",)
    REFILL = ("refill",)
    CONDITIONS = ("broken_conditions",)
    TABLE_CHECK = ("check_tables",)
    TWO_PHASE = ("require_two_phase", "prepared", "decide")
    COUNTED_DECISIONS = ("decisions",)
    FILL = ("fill",)
    HOUSEKEEPING = ("lacking", "present", "discard")
    OTHER_SETTINGS = ("other_settings",)
    CLIENT = ("open_client",)
    WATCH = ("open_look",)
    DATA_MARK = ("mark_data",)
    REPLICATION = (
        *("open_followers", "membership", "received", "promote", "accepts"),
        *("takes_writes", "descent"),
    )
    CLUSTER_CONTROL = ("describe_unreplicated", "open_detaching")
    REPOINTING = ("transactions", "follow", "lead")
    CLONING = ("clone",)
    UNREPLICATED_ROWS = ("count_rows",)
    POINT = ("require_point", "read_point")
    GROUP_MEMBER = ("require_alone",)
    GROUP_BOOTSTRAP = (
        *("require_may_bootstrap", "detached", "require_all_of", "bootstrap_group"),
        *("end_bootstrap", "join_group"),
    )


# Feature that users ask for -> why it is refused (%s: the target), the id, the hint.
REFUSALS = {
    Feature.CONTROL: (
        "no control can run on %s: dbcheck cannot make this kind of server acknowledge"
        " commits too early",
        ErrorId.CONTROL_NOT_SUPPORTED,
        "Run without a control.",
    ),
    Feature.TWO_PHASE: (
        "dbcheck cannot prepare transactions on %s",
        ErrorId.TWO_PHASE_NOT_SUPPORTED,
        "Run another workload.",
    ),
    Feature.FILL: (
        "dbcheck cannot fill the tables on %s",
        ErrorId.FILLING_NOT_SUPPORTED,
        "Run without rows_before.",
    ),
    Feature.POINT: (
        "dbcheck cannot read a point of the log of %s",
        ErrorId.POINT_NOT_SUPPORTED,
        "Take a copy instead: dbcheck_restore: copy.",
    ),
}
