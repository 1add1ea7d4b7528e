-- uuid: of each node of a YugabyteDB cluster, kept with its data (YugabyteDB
--       documentation, yb_servers())
select uuid::text as uuid from yb_servers() order by 1;
