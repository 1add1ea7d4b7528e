-- The first version of a row of the register; columns as in create_register.sql.
insert into dbcheck.register (epoch, session, seq, part, payload, checksum)
values ($1, $2, $3, $4, $5, $6);
