-- clock_us: the server's clock, microseconds since the epoch
-- second:   the second in which this statement began, since the epoch
select cast(unix_timestamp(now(6)) * 1000000 as signed) as clock_us,
       unix_timestamp() as second;
