-- default_storage_engine: what other clients' tables get; ours name their own
select @@global.default_storage_engine as default_storage_engine;
