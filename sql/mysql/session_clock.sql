-- Makes this session use the real time, whatever init_connect set.
set session timestamp = default;
