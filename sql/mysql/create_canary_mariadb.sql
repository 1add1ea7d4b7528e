-- A table whose open transaction crash recovery takes back, and the end of its session
-- commits: Aria's transactions last as long as LOCK TABLES (MariaDB, Aria FAQ).
-- epoch: of the cycle that planted the row; below 0 for its trial
create table if not exists canary (
    epoch bigint not null
) engine = Aria transactional = 1 comment = 'dbcheck 1';
