-- role, database: null stands for all of them
-- setting: name=value; every account may see those of all others
select role.rolname, base.datname, setting
from pg_db_role_setting as stored
cross join lateral unnest(stored.setconfig) as setting
left join pg_roles as role on role.oid = stored.setrole
left join pg_database as base on base.oid = stored.setdatabase
order by 1, 2, 3;
