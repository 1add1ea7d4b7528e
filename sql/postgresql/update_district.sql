-- An order or a payment in a district: what is added to both counters; columns as in
-- create_district.sql.
update dbcheck.district
   set next_order = next_order + $1, ytd = ytd + $2,
       seq = $3, payload = $4, checksum = $5
 where epoch = $6 and session = $7 and part = $8;
