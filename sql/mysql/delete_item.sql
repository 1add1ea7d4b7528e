-- An item, by the operation that wrote it last.
delete from item
 where epoch = ? and session = ? and seq = ? and part = ?;
