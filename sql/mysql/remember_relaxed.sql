-- Remembers, before the change, that %(setting)s of %(server)s was %(former)s and gets
-- %(changed)s.
insert into relaxed (server, setting, former, changed)
values (%(server)s, %(setting)s, %(former)s, %(changed)s);
