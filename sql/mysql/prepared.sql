-- formatID, gtrid_length, bqual_length, data: of each prepared transaction of the
-- server; its name, and behind it the qualifier of its branch
xa recover;
