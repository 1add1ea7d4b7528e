-- Rows that a session updates: each holds the key of the operation that wrote it last.
-- id:       auto-increment; never changes
-- epoch, session, part: which row it is; part 1 is the session's first
-- seq:      of the operation that wrote it last
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
create table if not exists register (
    id       bigint not null auto_increment primary key,
    epoch    bigint not null,
    session  int not null,
    seq      bigint not null,
    part     smallint not null,
    payload  longblob not null,
    checksum bigint not null,
    unique key register_key (epoch, session, part)
) comment = 'dbcheck 1';
