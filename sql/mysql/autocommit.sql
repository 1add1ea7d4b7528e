-- Whether each statement of this session is a transaction of its own.
select @@session.autocommit;
