-- Threads_connected: clients that are connected now, this one among them
show global status where variable_name = 'Threads_connected';
