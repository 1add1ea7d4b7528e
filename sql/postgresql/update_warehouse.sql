-- A payment to a warehouse; columns as in create_warehouse.sql.
update dbcheck.warehouse
   set ytd = ytd + $1, seq = $2, payload = $3, checksum = $4
 where epoch = $5 and session = $6 and part = $7;
