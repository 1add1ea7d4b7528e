-- A later version of a row of the register; columns as in create_register.sql.
update dbcheck.register set seq = $1, payload = $2, checksum = $3
 where epoch = $4 and session = $5 and part = $6;
