-- What the account may do where dbcheck's tables are, or would be.
-- account, database: as a GRANT wants them, quoted
-- may_create_schema: CREATE on the database
-- present:           the schema exists
-- may_use, may_create: USAGE and CREATE on it; null if it does not exist
select quote_ident(current_user) as account,
       quote_ident(current_database()) as database,
       has_database_privilege(current_database(), 'create') as may_create_schema,
       to_regnamespace('dbcheck') is not null as present,
       has_schema_privilege(to_regnamespace('dbcheck')::oid, 'usage') as may_use,
       has_schema_privilege(to_regnamespace('dbcheck')::oid, 'create') as may_create;
