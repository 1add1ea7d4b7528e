-- One row; columns as in create_TABLE.sql.
insert into dbcheck.{table} (epoch, session, seq, part, payload, checksum)
values ($1, $2, $3, $4, $5, $6);
