-- One row if the id is there, else none.
select 1 from dbcheck.fs where id = %(id)s;
