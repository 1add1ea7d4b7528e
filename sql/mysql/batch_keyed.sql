-- Rows of one operation, all by one statement; columns as in create_ledger.sql.
insert into {table} (epoch, session, seq, part, payload, checksum)
values (?, ?, ?, ?, ?, ?),
       (?, ?, ?, ?, ?, ?),
       (?, ?, ?, ?, ?, ?),
       (?, ?, ?, ?, ?, ?);
