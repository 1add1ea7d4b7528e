-- A payment to a warehouse; columns as in create_warehouse.sql.
update warehouse
   set ytd = ytd + ?, seq = ?, payload = ?, checksum = ?
 where epoch = ? and session = ? and part = ?;
