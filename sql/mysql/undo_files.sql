-- file: of each undo tablespace, relative to the data directory or absolute; only for
-- accounts with the privilege PROCESS (MySQL 8.4, INFORMATION_SCHEMA FILES Table)
select file_name as file from information_schema.files where file_type = 'UNDO LOG';
