-- Removes the table that holds a word in the data directory.
drop table marker;
