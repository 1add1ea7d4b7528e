-- thread: of this session, for KILL
select connection_id() as thread;
