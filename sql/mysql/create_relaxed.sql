-- What a control changed on the server, for whoever has to put it back.  In memory,
-- so that a restart empties it: that undoes the change too.
-- server:   server_id of the server that was changed; replicas may hold the row as well
-- former:   innodb_flush_log_at_trx_commit before
-- changed:  what the control set it to
create table relaxed (
    server  bigint unsigned not null primary key,
    former  int not null,
    changed int not null
) engine = memory comment = 'dbcheck 1';
