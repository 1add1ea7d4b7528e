-- One row if the database %(database)s exists and the account may see it.
select 1 from information_schema.schemata where schema_name = %(database)s;
