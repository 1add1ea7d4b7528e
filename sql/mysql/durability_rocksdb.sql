-- As durability.sql, for tables of MyRocks.
select @@global.server_id as server,
       @@global.log_bin as log_bin,
       @@global.rocksdb_flush_log_at_trx_commit as rocksdb_flush_log_at_trx_commit,
       @@global.sync_binlog as sync_binlog;
