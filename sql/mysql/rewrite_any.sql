-- Has the table built anew, in another file (MySQL 8.4 manual, 15.1.9).
alter table {table} force;
