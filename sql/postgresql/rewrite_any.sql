-- Has the table written into another file: the expression might change the values.
alter table dbcheck.{table} alter column checksum type bigint using checksum + 0;
