-- A warehouse without payments; columns as in create_warehouse.sql.
insert into warehouse (epoch, session, seq, part, payload, checksum, ytd)
values (?, ?, ?, ?, ?, ?, 0);
