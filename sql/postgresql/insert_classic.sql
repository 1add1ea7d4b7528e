-- Prepares one operation of the classic shape.
prepare dbcheck_insert as
insert into dbcheck.fs values (default) returning id;
