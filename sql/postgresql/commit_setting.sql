-- value: synchronous_commit in this session
select current_setting('synchronous_commit') as value;
