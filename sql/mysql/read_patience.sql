-- lock_wait_timeout: seconds to wait where another session has the table locked
set session lock_wait_timeout = %(wait_s)s;
