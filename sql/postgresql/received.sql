-- position: the end of the WAL that a standby has, received or found in its own files
-- applied: the end of what it has replayed; both in bytes from the log's beginning
-- connected: it receives from the server that it follows
select (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
        - '0/0')::bigint as position,
       (pg_last_wal_replay_lsn() - '0/0')::bigint as applied,
       exists (select from pg_stat_wal_receiver) as connected;
