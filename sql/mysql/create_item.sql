-- Rows that are inserted, updated and deleted by transactions of one or more of them.
-- id:       auto-increment; never changes
-- epoch, session, seq: of the operation that wrote it last
-- part:     place of the row within the operation that inserted it, from 1 on
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
create table if not exists item (
    id       bigint not null auto_increment primary key,
    epoch    bigint not null,
    session  int not null,
    seq      bigint not null,
    part     smallint not null,
    payload  longblob not null,
    checksum bigint not null,
    unique key item_key (epoch, session, seq, part)
) comment = 'dbcheck 1';
