-- Leaves the row whose disappearance shows a crash.
insert into dbcheck.canary (epoch) values (%(epoch)s);
