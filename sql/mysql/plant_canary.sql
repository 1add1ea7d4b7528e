-- Leaves the row that the end of this session commits.
insert into canary (epoch) values (%(epoch)s);
