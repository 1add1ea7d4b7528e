-- engine: each storage engine without durable commits that tables of others have
-- tables: how many of those this account may see
select engine, count(*) as tables
from information_schema.tables
where table_type = 'BASE TABLE'
    and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema')
    and lower(engine) not in ('innodb', 'rocksdb', 'ndbcluster')
    and table_comment <> 'dbcheck 1'
group by engine
order by engine;
