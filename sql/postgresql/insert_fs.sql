-- One row of the classic workload, prepared.
insert into dbcheck.fs values (default) returning id;
