-- One item; columns as in create_item.sql.
insert into dbcheck.item (epoch, session, seq, part, payload, checksum)
values ($1, $2, $3, $4, $5, $6);
