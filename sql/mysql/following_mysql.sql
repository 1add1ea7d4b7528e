-- What this server has and the other one lacks, the reverse, and server_uuid.
select gtid_subtract(@@global.gtid_executed, %(theirs)s) as extra,
       gtid_subtract(%(theirs)s, @@global.gtid_executed) as missing,
       @@server_uuid as uuid;
