-- An order that is not delivered; parameters as in insert_orders.sql, columns as in
-- create_neworder.sql.
insert into neworder
       (epoch, session, seq, part, payload, checksum, district, number)
values (?, ?, ?, ?, ?, ?, ?,
        (select next_order - 1 from district
          where epoch = ? and session = ? and part = ?));
