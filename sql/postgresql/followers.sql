-- name, state, sync: of each standby that is connected, as in pg_stat_replication
-- all but the name are null if the account may not see them
-- since: the process that serves the standby, when it was connected, and when this
--        session read the configuration last
select application_name as name, state, sync_state as sync,
       concat_ws(' ', pid, extract(epoch from backend_start),
                 extract(epoch from pg_conf_load_time())) as since
  from pg_stat_replication
 order by 1;
