-- A later version of a row of the register; columns as in create_register.sql.
update register set seq = ?, payload = ?, checksum = ?
 where epoch = ? and session = ? and part = ?;
