-- One row; columns as in create_TABLE.sql.
insert into {table} (epoch, session, seq, part, payload, checksum)
values (?, ?, ?, ?, ?, ?);
