-- A table whose new rows its header counts only once they are unlocked: MyISAM writes
-- the header in mi_lock_database(), F_UNLCK (MySQL 9.7, mi_locking.cc).
-- epoch: of the cycle that planted the row; below 0 for its trial
create table if not exists canary (
    epoch bigint not null
) engine = MyISAM comment = 'dbcheck 1';
