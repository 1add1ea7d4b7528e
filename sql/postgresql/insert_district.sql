-- A district without orders and payments; columns as in create_district.sql.
insert into dbcheck.district
       (epoch, session, seq, part, payload, checksum, next_order, ytd)
values ($1, $2, $3, $4, $5, $6, 1, 0);
