-- An order, with the number that its district gave it; columns as in create_orders.sql.
-- The last three parameters are the epoch, session and part of the district.
insert into orders
       (epoch, session, seq, part, payload, checksum, district, line_count, number)
values (?, ?, ?, ?, ?, ?, ?, ?,
        (select next_order - 1 from district
          where epoch = ? and session = ? and part = ?));
