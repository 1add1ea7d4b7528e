-- The warehouse of each terminal, which is a session.
-- id:       auto-increment; never changes
-- epoch, session, part: which row it is
-- seq:      of the operation that wrote it last
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
-- ytd:      the sum of all payments
create table if not exists warehouse (
    id       bigint not null auto_increment primary key,
    epoch    bigint not null,
    session  int not null,
    seq      bigint not null,
    part     smallint not null,
    payload  longblob not null,
    checksum bigint not null,
    ytd      bigint,
    unique key warehouse_key (epoch, session, part)
) comment = 'dbcheck 1';
