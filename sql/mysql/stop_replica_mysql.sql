-- It follows no other server from now on, and keeps what it has applied.
stop replica;
