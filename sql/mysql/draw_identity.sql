-- Names the data %(uuid)s, unless they have a name.
insert ignore into identity (one, uuid) values (1, %(uuid)s);
