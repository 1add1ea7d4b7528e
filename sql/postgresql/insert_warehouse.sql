-- A warehouse without payments; columns as in create_warehouse.sql.
insert into dbcheck.warehouse (epoch, session, seq, part, payload, checksum, ytd)
values ($1, $2, $3, $4, $5, $6, 0);
