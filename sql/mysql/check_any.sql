-- table, op:  the table's name, and "check"
-- type, text: of each message; the last one is the result.
-- InnoDB compares the number of rows of each index with that of the table, and follows
-- the links between their pages.  With "extended" MariaDB looks for the row of each
-- entry as well (from 10.6.11 on, MDEV-24402); MySQL ignores it (8.4 manual, 15.7.3.2).
check table {table} extended;
