-- name, state, sync: of each standby that is connected, as in pg_stat_replication
-- all but the name are null if the account may not see them
select application_name as name, state, sync_state as sync
  from pg_stat_replication
 order by 1;
