-- Has this session tell the real time, whatever init_connect set.
set session timestamp = default;
