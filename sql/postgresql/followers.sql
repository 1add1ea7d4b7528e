-- name, state, sync: of each standby that is connected, as in pg_stat_replication
-- flushed: how far it has reported its WAL durable, in bytes from the log's beginning
-- all but the name are null if the account may not see them
select application_name as name, state, sync_state as sync,
       (flush_lsn - '0/0')::bigint as flushed
  from pg_stat_replication
 order by 1;
