-- The next START GROUP_REPLICATION begins a group instead of joining one.
set global group_replication_bootstrap_group = on;
