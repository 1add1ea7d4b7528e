-- How the newest copy ended; no row if there was none.
select state, error_message from performance_schema.clone_status;
