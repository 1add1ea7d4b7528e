-- Fixes what a global default, or init_connect, could have changed.
-- autocommit: every statement is a transaction of its own
-- sql_mode:   0 asks for the next id (no NO_AUTO_VALUE_ON_ZERO), backslashes escape
--             (no NO_BACKSLASH_ESCAPES), no other engine in place of InnoDB
-- net_write_timeout: a reader of many rows may pause this long, in seconds
set session autocommit = 1,
    sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
    net_write_timeout = 3600;
