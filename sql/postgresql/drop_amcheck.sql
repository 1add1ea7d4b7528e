-- Refused by the server if anything depends on it.
drop extension amcheck;
