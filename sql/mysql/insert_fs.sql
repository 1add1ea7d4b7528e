-- One row of the classic workload, prepared; 0 asks for the next id.
INSERT INTO fs VALUES(0);
