-- An order, with the number that its district gave it; columns as in create_orders.sql.
-- The last three parameters are the epoch, session and part of the district.
insert into dbcheck.orders
       (epoch, session, seq, part, payload, checksum, district, line_count, number)
values ($1, $2, $3, $4, $5, $6, $7, $8,
        (select next_order - 1 from dbcheck.district
          where epoch = $9 and session = $10 and part = $11));
