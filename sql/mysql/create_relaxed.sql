-- What a control changed on the server, for whoever has to put it back.  In memory,
-- so that a restart empties it: that undoes the change too.
-- server:   server_id of the server that was changed; replicas may hold the row as well
-- setting:  that of the storage engine, innodb_flush_log_at_trx_commit or
--           rocksdb_flush_log_at_trx_commit; innodb_log_file_buffering; or sync_binlog
-- former:   its value before
-- changed:  what the control set it to
create table relaxed (
    server  bigint unsigned not null,
    setting varchar(64) character set ascii not null,
    former  bigint unsigned not null,
    changed bigint unsigned not null,
    primary key (server, setting)
) engine = memory comment = 'dbcheck 1';
