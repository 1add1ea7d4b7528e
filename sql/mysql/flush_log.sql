-- server: its server_id
-- value:  innodb_flush_log_at_trx_commit, which is the same for every session
select @@global.server_id as server,
       @@global.innodb_flush_log_at_trx_commit as value;
