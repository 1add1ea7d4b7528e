"""Runs what a verb asks for: cycles on a server, in labs, of matrices and campaigns."""
