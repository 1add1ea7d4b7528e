-- One row if the id is there, else none.
select 1 from ledger where id = %(id)s;
