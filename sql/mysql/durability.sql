-- server:  its server_id
-- log_bin: 1 if it writes a binary log
-- innodb_flush_log_at_trx_commit, sync_binlog: the same for every session
select @@global.server_id as server,
       @@global.log_bin as log_bin,
       @@global.innodb_flush_log_at_trx_commit as innodb_flush_log_at_trx_commit,
       @@global.sync_binlog as sync_binlog;
