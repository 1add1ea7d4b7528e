-- The lines of each order, which was entered by the same operation.
-- id:       auto-increment; never changes
-- epoch, session, seq: of the operation that wrote it
-- part:     place of the row within its operation
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
create table if not exists orderline (
    id       bigint not null auto_increment primary key,
    epoch    bigint not null,
    session  int not null,
    seq      bigint not null,
    part     smallint not null,
    payload  longblob not null,
    checksum bigint not null,
    unique key orderline_key (epoch, session, seq, part)
) comment = 'dbcheck 1';
