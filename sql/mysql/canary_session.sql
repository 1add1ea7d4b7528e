-- For the session that holds the canary: it rests from before the load until the cut.
-- wait_timeout:      seconds until the server ends a session that rests; its maximum
-- lock_wait_timeout: seconds to wait where another run holds its own canary
set session wait_timeout = 31536000, lock_wait_timeout = %(wait_s)s;
