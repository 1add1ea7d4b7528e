-- One row if the id is there, else none.
select 1 from fs where id = %(id)s;
