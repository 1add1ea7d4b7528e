"""Runs as dbcheck stored them, each with the judgement of the version that did."""
