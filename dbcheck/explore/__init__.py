"""Crash states: what a power cut could have left at any moment of one recorded load."""
