-- archiver: whether WAL files are archived by a command that copies them without a
-- flush; the command itself may hold a secret and is not read. No row without
-- archiving, or if the account may not see it.
select case
    when command.setting ~ '(^|[^a-z_-])(cp|mv|cat|gzip|zstd|lz4) '
        and command.setting !~ 'sync' then 'copies without a flush'
    else 'other'
end as archiver
from pg_settings as mode
join pg_settings as command on command.name = 'archive_command'
where mode.name = 'archive_mode' and mode.setting <> 'off'
    and command.setting not in ('', '(disabled)');
