-- name, state, sync: of each standby that is connected, as in pg_stat_replication
-- all but the name are null if the account may not see them
-- since: the process that serves the standby, when it was connected, and when this
--        session read the configuration last
-- connection: the slot that this process uses, else where the standby connects from
select r.application_name as name, r.state, r.sync_state as sync,
       concat_ws(' ', r.pid, extract(epoch from r.backend_start),
                 extract(epoch from pg_conf_load_time())) as since,
       coalesce('slot ' || s.slot_name, 'address ' || host(r.client_addr), '')
           as connection
  from pg_stat_replication r
       left join pg_replication_slots s on s.active_pid = r.pid
 order by 1;
