-- One operation of the classic shape, prepared; 0 asks for the next id.
INSERT INTO fs VALUES(0);
