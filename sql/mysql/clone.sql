-- This server's data is replaced by a copy of that server's; then it restarts.
clone instance from %(user)s@%(host)s:%(port)s identified by %(password)s require ssl;
