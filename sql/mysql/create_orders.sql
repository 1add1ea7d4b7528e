-- Orders.
-- id:       auto-increment; never changes
-- epoch, session, seq: of the operation that wrote it
-- part:     place of the row within its operation
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
-- district: where it was entered
-- number:   of the order in its district, from 1 on
-- line_count: how many lines it has
create table if not exists orders (
    id         bigint not null auto_increment primary key,
    epoch      bigint not null,
    session    int not null,
    seq        bigint not null,
    part       smallint not null,
    payload    longblob not null,
    checksum   bigint not null,
    district   smallint,
    number     bigint,
    line_count smallint,
    unique key orders_key (epoch, session, seq, part)
) comment = 'dbcheck 1';
