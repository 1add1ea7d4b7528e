-- An item, by the operation that wrote it last.
delete from dbcheck.item
 where epoch = $1 and session = $2 and seq = $3 and part = $4;
