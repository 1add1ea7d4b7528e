-- START GROUP_REPLICATION joins a group again: a second one must never be begun.
set global group_replication_bootstrap_group = off;
