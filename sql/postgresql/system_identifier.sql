-- system_identifier: drawn by initdb, equal for all that descends from it
-- timeline: of the log that is being written, in hexadecimal; a promotion begins a new
--           one, recovery from a crash does not; '' on a standby, which writes none
select system_identifier::text,
       case when pg_is_in_recovery() then ''
            else left(pg_walfile_name(pg_current_wal_lsn()), 8)
        end as timeline
  from pg_control_system();
