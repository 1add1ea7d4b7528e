-- A district without orders and payments; columns as in create_district.sql.
insert into district
       (epoch, session, seq, part, payload, checksum, next_order, ytd)
values (?, ?, ?, ?, ?, ?, 1, 0);
