-- variable, value: settings of the cluster that decide whether a commit is durable; the
--                  second is the newer name (kvserver/logstore, settings.WithName)
select variable, value
  from [show all cluster settings]
 where variable in ('kv.raft_log.disable_synchronization_unsafe',
                    'kv.raft_log.synchronization.unsafe.disabled');
