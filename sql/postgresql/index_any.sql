-- Another index, named after the table; it is dropped with it.
create index {table}_index on dbcheck.{table} (checksum);
