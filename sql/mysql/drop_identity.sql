-- Removes the name of this server's data.
drop table identity;
