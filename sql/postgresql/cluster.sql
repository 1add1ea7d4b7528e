-- system_identifier: as in system_identifier.sql; asks for nothing that needs a server
--                    with a write-ahead log of its own
select system_identifier::text from pg_control_system();
