-- The districts of each warehouse; part is the number of the district.
-- id:       auto-increment; never changes
-- epoch, session, part: which row it is
-- seq:      of the operation that wrote it last
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
-- next_order: the number that its next order gets
-- ytd:      the sum of the payments in the district
create table if not exists district (
    id         bigint not null auto_increment primary key,
    epoch      bigint not null,
    session    int not null,
    seq        bigint not null,
    part       smallint not null,
    payload    longblob not null,
    checksum   bigint not null,
    next_order bigint,
    ytd        bigint,
    unique key district_key (epoch, session, part)
) comment = 'dbcheck 1';
