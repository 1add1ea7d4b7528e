-- The first version of a row of the register; columns as in create_register.sql.
insert into register (epoch, session, seq, part, payload, checksum)
values (?, ?, ?, ?, ?, ?);
