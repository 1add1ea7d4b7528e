"""The program that is sent to the target's host: nothing is installed there."""
