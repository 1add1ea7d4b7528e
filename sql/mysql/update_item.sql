-- A later version of an item, which bears the key of the operation that wrote it.
update item set seq = ?, payload = ?, checksum = ?
 where epoch = ? and session = ? and seq = ? and part = ?;
