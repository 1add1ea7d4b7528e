-- One row if the canary of a cycle is there.
select 1 from canary where epoch = %(epoch)s limit 1;
