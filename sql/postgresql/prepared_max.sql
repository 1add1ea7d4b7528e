-- most: transactions that can be prepared at once, in the whole server
-- now:  those that are
select current_setting('max_prepared_transactions')::int as most,
       (select count(*) from pg_prepared_xacts) as now;
