-- A later version of an item, which bears the key of the operation that wrote it.
update dbcheck.item set seq = $1, payload = $2, checksum = $3
 where epoch = $4 and session = $5 and seq = $6 and part = $7;
