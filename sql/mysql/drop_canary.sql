-- Removes the table and its rows.
drop table if exists canary;
