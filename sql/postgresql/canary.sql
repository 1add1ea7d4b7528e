-- One row if the canary of a cycle is still there.
select 1 from dbcheck.canary where epoch = %(epoch)s;
