-- What is asked before anything else.
-- version: e.g. 10.11.14-MariaDB-deb12u2; version_comment: e.g. Debian 12
-- account: the account that the server chose for us, as user@host
select version() as version, @@version_comment as version_comment,
       current_user() as account;
