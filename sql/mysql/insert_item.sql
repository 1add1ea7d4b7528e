-- One item; columns as in create_item.sql.
insert into item (epoch, session, seq, part, payload, checksum)
values (?, ?, ?, ?, ?, ?);
