-- id: server_id; states: the newest transaction of each server and domain in the binary
--     log
select @@server_id as id, @@global.gtid_binlog_state as states;
