-- A side table, whose rows are those that housekeeping tasks inserted; or the table of
-- the probes that commit after the cut.
-- id:       auto-increment; reported, but never used to name an operation
-- epoch, session, seq: the operation's key
-- part:     0-based place of the row within its operation
-- payload:  bytes that the seed and the key decide
-- checksum: CRC-32 of key, part and payload
create table {table} (
    id       bigint not null auto_increment primary key,
    epoch    bigint not null,
    session  int not null,
    seq      bigint not null,
    part     smallint not null,
    payload  longblob not null,
    checksum bigint not null
) comment = 'dbcheck 1';
