-- Remembers, before the change, that %(server)s had %(former)s and gets %(changed)s.
insert into relaxed (server, former, changed)
values (%(server)s, %(former)s, %(changed)s);
