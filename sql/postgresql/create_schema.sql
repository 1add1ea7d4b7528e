-- All that dbcheck owns in this database.
create schema if not exists dbcheck;
