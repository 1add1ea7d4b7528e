-- Refused by the server if anything is left in it.
drop schema dbcheck;
