-- Rows of one operation, all by one statement; columns as in create_ledger.sql.
insert into dbcheck.{table} (epoch, session, seq, part, payload, checksum)
values ($1, $2, $3, $4, $5, $6),
       ($7, $8, $9, $10, $11, $12),
       ($13, $14, $15, $16, $17, $18),
       ($19, $20, $21, $22, $23, $24);
