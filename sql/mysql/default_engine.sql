-- default_storage_engine: what tables of other sessions get; dbcheck's own set theirs
select @@global.default_storage_engine as default_storage_engine;
