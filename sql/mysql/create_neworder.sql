-- Orders that are not delivered, which is all of them.
-- id:       auto-increment; never changes
-- epoch, session, seq: of the operation that wrote it
-- part:     place of the row within its operation
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
-- district, number: of the order, as in create_orders.sql
create table if not exists neworder (
    id       bigint not null auto_increment primary key,
    epoch    bigint not null,
    session  int not null,
    seq      bigint not null,
    part     smallint not null,
    payload  longblob not null,
    checksum bigint not null,
    district smallint,
    number   bigint,
    unique key neworder_key (epoch, session, seq, part)
) comment = 'dbcheck 1';
