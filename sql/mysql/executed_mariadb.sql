-- id: server_id; states: the newest transaction of each server and domain, as they were
--     logged, and as they were replicated
select @@server_id as id,
       concat_ws(',', @@global.gtid_binlog_state, @@global.gtid_slave_pos) as states;
