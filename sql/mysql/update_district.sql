-- An order or a payment in a district: what is added to both counters; columns as in
-- create_district.sql.
update district
   set next_order = next_order + ?, ytd = ytd + ?,
       seq = ?, payload = ?, checksum = ?
 where epoch = ? and session = ? and part = ?;
