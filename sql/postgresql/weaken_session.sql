-- For the sessions of a control: an ack comes before the commit is on the drive.
set session synchronous_commit = off;
