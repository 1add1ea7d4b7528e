-- An order that is not delivered; parameters as in insert_orders.sql, columns as in
-- create_neworder.sql.
insert into dbcheck.neworder
       (epoch, session, seq, part, payload, checksum, district, number)
values ($1, $2, $3, $4, $5, $6, $7,
        (select next_order - 1 from dbcheck.district
          where epoch = $8 and session = $9 and part = $10));
