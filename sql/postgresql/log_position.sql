-- written, checkpoint: of the write-ahead log, in bytes from its beginning: the newest,
--                      and where recovery would begin to replay
select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
             else pg_current_wal_insert_lsn()
         end - '0/0')::bigint as written,
       (redo_lsn - '0/0')::bigint as checkpoint
  from pg_control_checkpoint();
